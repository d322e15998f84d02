//! How long the tests took, from the report that cargo-nextest writes.

use std::{collections::BTreeMap, fmt, path::Path};

use anyhow::{Context, Result};
use quick_xml::{Reader, events::Event};

/// Number of tests in the list of the slowest.
const SLOWEST: usize = 30;

/// Modules that took less are left out of the table.
const MIN_MODULE_SECONDS: f64 = 5.0;

/// The tests of a run.
#[derive(Debug)]
pub(crate) struct TestTimes(Vec<TestTime>);

#[derive(Debug, PartialEq)]
struct TestTime {
    /// The test program, such as `satchel-system::it`; the unit tests' is called as the package.
    program: String,
    /// Its path in the program.
    name: String,
    seconds: f64,
    has_failed: bool,
}

impl TestTimes {
    /// Reads a report.
    pub(crate) fn read(report: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(report).with_context(|| format!("failed to read `{}`", report.display()))?;
        parse(&text).map(Self).with_context(|| format!("`{}` is not a JUnit report", report.display()))
    }

    /// Lists the tests that failed, for the end of a long output.
    pub(crate) fn list_failed(&self) -> String {
        let failed: Vec<_> = self.0.iter().filter(|test| test.has_failed).collect();
        let lines = failed.iter().map(|test| format!("\n  {} {}", test.program, test.name));
        format!("{} of {} tests failed{}", failed.len(), self.0.len(), lines.collect::<String>())
    }

    /// Sums by a part of the tests' names: number of tests and seconds, the longest first.
    fn sums(&self, key: impl Fn(&TestTime) -> String) -> Vec<(String, usize, f64)> {
        let mut sums: BTreeMap<String, (usize, f64)> = BTreeMap::new();
        for test in &self.0 {
            let (count, seconds) = sums.entry(key(test)).or_default();
            *count += 1;
            *seconds += test.seconds;
        }
        let mut sums: Vec<_> = sums.into_iter().map(|(key, (count, seconds))| (key, count, seconds)).collect();
        sums.sort_by(|(.., one), (.., other)| other.total_cmp(one));
        sums
    }
}

fn package(test: &TestTime) -> String {
    test.program.split("::").next().unwrap_or_default().to_owned()
}

/// The test program with the first module in it.
fn module(test: &TestTime) -> String {
    match test.name.split_once("::") {
        Some((module, _)) => format!("{} {module}", test.program),
        None => test.program.clone(),
    }
}

impl fmt::Display for TestTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds: f64 = self.0.iter().map(|test| test.seconds).sum();
        writeln!(f, "{:>8} {:>6}  package", "seconds", "tests")?;
        for (name, count, seconds) in self.sums(package) {
            writeln!(f, "{seconds:>8.1} {count:>6}  {name}")?;
        }
        writeln!(f, "{seconds:>8.1} {:>6}  all", self.0.len())?;
        writeln!(f, "\n{:>8} {:>6}  module of {MIN_MODULE_SECONDS} s and more", "seconds", "tests")?;
        for (name, count, seconds) in self.sums(module).iter().filter(|(.., seconds)| *seconds >= MIN_MODULE_SECONDS) {
            writeln!(f, "{seconds:>8.1} {count:>6}  {name}")?;
        }
        write!(f, "\n{:>8}  the {SLOWEST} slowest tests", "seconds")?;
        let slowest = self.sums(|test| format!("{} {}", test.program, test.name));
        slowest.iter().take(SLOWEST).try_for_each(|(name, _, seconds)| write!(f, "\n{seconds:>8.1}  {name}"))
    }
}

fn parse(report: &str) -> Result<Vec<TestTime>> {
    let mut reader = Reader::from_str(report);
    let mut tests = Vec::new();
    loop {
        match reader.read_event()? {
            Event::Start(element) | Event::Empty(element) if element.name().as_ref() == "testcase" => {
                let attribute = |name: &str| {
                    let attribute = element.try_get_attribute(name)?;
                    let attribute = attribute.with_context(|| format!("a test has no attribute `{name}`"))?;
                    anyhow::Ok(attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0)?.into_owned())
                };
                tests.push(TestTime {
                    program: attribute("classname")?,
                    name: attribute("name")?,
                    seconds: attribute("time")?.parse().context("a test's time is not a number")?,
                    has_failed: false,
                });
            }
            // Of a test that passed at a second try, the first is called otherwise.
            Event::Start(element) | Event::Empty(element)
                if ["failure", "error"].contains(&element.name().as_ref()) =>
            {
                tests.last_mut().context("a failure belongs to no test")?.has_failed = true;
            }
            Event::Eof => return Ok(tests),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1" errors="0" time="9.5">
    <testsuite name="a::it" tests="2" failures="1">
        <testcase name="matrix::one&lt;two&gt;" classname="a::it" time="6.250"/>
        <testcase name="matrix::three" classname="a::it" time="1.5">
            <failure type="test failure">thread 'x' panicked &amp; more</failure>
        </testcase>
    </testsuite>
    <testsuite name="a" tests="1">
        <testcase name="root" classname="a" time="0.25"/>
    </testsuite>
</testsuites>"#;

    #[test]
    fn tests_are_summed_by_package_and_module() {
        let times = TestTimes(parse(REPORT).unwrap());
        assert_eq!(times.sums(package), [("a".to_owned(), 3, 8.0)]);
        assert_eq!(times.sums(module), [("a::it matrix".to_owned(), 2, 7.75), ("a".to_owned(), 1, 0.25)]);
        let table = times.to_string();
        assert!(table.contains("    6.2  a::it matrix::one<two>\n"), "{table}");
        assert!(table.contains("     8.0      3  all\n"), "{table}");
    }

    #[test]
    fn failed_tests_are_listed() {
        let times = TestTimes(parse(REPORT).unwrap());
        assert_eq!(times.list_failed(), "1 of 3 tests failed\n  a::it matrix::three");
    }

    #[test]
    fn report_without_times_is_refused() {
        let error = parse(&REPORT.replace(" time=\"0.25\"", "")).unwrap_err();
        assert_eq!(error.to_string(), "a test has no attribute `time`");
    }
}
