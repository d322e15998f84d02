//! The seed that chooses which share of the large matrices a run of the gate tries.
//!
//! Every run tries a fixed core. The rest rotates: of each matrix that is divided into so many shares, the one is tried
//! whose number is the seed modulo their number (`satchel_requirements::sample`).

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use crate::worker::root;

/// The environment variable that sets the seed, and hands it to the tests.
pub(crate) const SAMPLE_VARIABLE: &str = "SATCHEL_SAMPLE";

/// The most shares that a matrix is divided into. Those of the others follow from it.
const MAX_SHARES: u64 = 8;

/// The file of a target directory with the seeds of its last runs that passed, the newest last.
const LOG: &str = "samples";

/// Number of seeds that are kept.
const MAX_LOGGED: usize = 32;

/// Returns the seed that the environment sets, else one that follows from the commit's tree, so that equal code is
/// tested alike.
pub(crate) fn choose_seed() -> Result<u64> {
    if let Some(seed) = std::env::var_os(SAMPLE_VARIABLE) {
        let seed = seed.to_str().and_then(|seed| seed.parse().ok());
        return seed.with_context(|| format!("{SAMPLE_VARIABLE} is not a whole number"));
    }
    // A copy without its history is tested, too.
    let tree = read_tree_hash().unwrap_or_else(|error| {
        println!(
            "git doesn't say which code this is ({error:#}), so the same share of the large matrices is tried each time; \
             {SAMPLE_VARIABLE}=NUMBER chooses another"
        );
        String::new()
    });
    Ok(seed_of_tree(&tree))
}

fn read_tree_hash() -> Result<String> {
    let output = Command::new("git").args(["rev-parse", "HEAD^{tree}"]).current_dir(root()?).output();
    let output = output.context("it could not be started")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("its answer is not UTF-8")
}

/// The first 32 bits of a tree's hash; zero where there is none.
fn seed_of_tree(hash: &str) -> u64 {
    hash.get(..8).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

/// Records the seed of a run that passed, and describes what the last runs have tried together.
pub(crate) fn record_seed(target: &Path, seed: u64) -> Result<String> {
    let log = target.join(LOG);
    let recorded = fs::read_to_string(&log).unwrap_or_default();
    let mut seeds: Vec<u64> = recorded.lines().filter_map(|line| line.parse().ok()).collect();
    seeds.push(seed);
    let seeds = &seeds[seeds.len().saturating_sub(MAX_LOGGED)..];
    let lines: String = seeds.iter().map(|seed| format!("{seed}\n")).collect();
    fs::write(&log, lines).with_context(|| format!("failed to write `{}`", log.display()))?;
    let shares: BTreeSet<u64> = seeds.iter().map(|seed| seed % MAX_SHARES).collect();
    let runs = if seeds.len() == 1 { "the last run".to_owned() } else { format!("the last {} runs", seeds.len()) };
    Ok(format!("{runs} here tried {} of the {MAX_SHARES} shares of each matrix", shares.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_follows_from_the_tree() {
        assert_eq!(seed_of_tree("0000001fcd6c2ca2ad8a3dbd3e3a8b8a4fa1ba2f\n"), 31);
        assert_eq!(seed_of_tree(""), 0);
    }

    #[test]
    fn coverage_counts_the_shares_of_the_last_runs() {
        let target = tempfile::tempdir().unwrap();
        let record = |seed| record_seed(target.path(), seed).unwrap();
        assert_eq!(record(3), "the last run here tried 1 of the 8 shares of each matrix");
        assert_eq!(record(12), "the last 2 runs here tried 2 of the 8 shares of each matrix");
        assert_eq!(record(11), "the last 3 runs here tried 2 of the 8 shares of each matrix");
        (0..MAX_LOGGED as u64).for_each(|_| drop(record(1)));
        assert_eq!(record(1), "the last 32 runs here tried 1 of the 8 shares of each matrix");
    }
}
