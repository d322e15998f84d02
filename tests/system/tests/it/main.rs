//! The whole system: the real binary and the built product against fake platforms, and the rules of the house.

mod architecture;
mod boundaries;
mod canary;
mod confirmation;
mod console_session;
mod crash_matrix;
mod day;
mod discord_acceptance;
mod discord_people;
mod download;
mod durability;
mod fault_matrix;
mod file_numbers;
mod full_disk;
mod guide;
mod kill_matrix;
mod model_requests;
mod model_wires;
mod owner_commands;
mod pairing;
mod product;
mod scripts;
mod selection;
mod storage;
mod test_platform;
mod tool_result;
