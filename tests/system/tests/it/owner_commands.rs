//! The owner's commands over the real binary: `run`, logging in, choosing a model, `init`, `doctor`, `config schema`, `audit`.

mod audit;
mod deletion;
mod doctor;
mod file_modes;
mod formulas;
mod garbage_collection;
mod init;
mod links;
mod login;
mod lost_replies;
mod model_choice;
mod nats;
mod open_option;
mod openai_client;
mod pending_worker;
mod retries;
mod revoked_token;
mod root_commands;
mod run;
mod server_process;
mod server_wait;
mod shared_servers;
mod stopping;
mod stub_server;
mod typed_secrets;
