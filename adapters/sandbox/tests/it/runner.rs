//! The promises of work on files, in the sandbox and with no policy before it.

satchel_contracts::file_runner_contract!(satchel_sandbox::SandboxRunner::default());
