//! The owner's commands over the real binary: `run`, the way in to its page, the choice of a model, `init`, `doctor`, `config schema`.

mod choice;
mod collection;
mod doctor;
mod init;
mod links;
mod login;
mod opening;
mod run;
mod serving;
mod stranger;
mod typing;
