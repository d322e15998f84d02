//! The owner's commands over the real binary: `run`, logging in, choosing a model, `init`, `doctor`, `config schema`.

mod choice;
mod collection;
mod doctor;
mod init;
mod links;
mod login;
mod modes;
mod opening;
mod run;
mod serving;
mod stranger;
mod typing;
