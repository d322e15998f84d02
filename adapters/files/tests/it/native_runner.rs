//! The promises of work on files, without a sandbox.

satchel_contracts::file_runner_contract!(satchel_files::NativeRunner);
