//! Applies the environment and the command line over the configuration file.
//!
//! `SATCHEL_TELEGRAM__TOKEN` is `telegram.token`: two underscores between levels, any case after `SATCHEL_`.
//! A name that the file has already is found without regard to case, and with `_` for the `-` that environment
//! variables can't hold; a new name (`SATCHEL_MODELS__FAST__PROVIDER`) is taken in lower case.
//! A variable that is set to nothing counts as not set, because container files pass on what they don't have.
//! A variable without two underscores is a setting only if it is a key: others share the prefix, Kubernetes for one.

use std::ffi::OsString;

use super::{
    CONFIG_VARIABLE,
    origin::{ConfigProblem, SettingOrigin},
    tree::{ConfigNode, ConfigValue},
};

/// The prefix of all variables.
pub(crate) const VARIABLE_PREFIX: &str = "SATCHEL_";

/// Applies the `SATCHEL_` variables that are settings to the tree, and returns the names of those that have no effect.
/// `plain_keys` are the keys outside of sections.
pub(crate) fn apply_environment(
    root: &mut ConfigNode,
    environment: &[(OsString, OsString)],
    plain_keys: &[&str],
    problems: &mut Vec<ConfigProblem>,
) -> Vec<String> {
    let mut ignored = Vec::new();
    let mut variables: Vec<_> = environment
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value)))
        .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX) && *name != CONFIG_VARIABLE)
        .collect();
    // A section before its keys, independent of the system's order.
    variables.sort_unstable();
    for (name, value) in variables {
        let rest = &name[VARIABLE_PREFIX.len()..];
        if value.is_empty() || is_set_by_kubernetes(rest) {
            continue;
        }
        if !rest.contains("__") && !plain_keys.iter().any(|key| key.eq_ignore_ascii_case(rest)) {
            ignored.push(name.to_owned());
            continue;
        }
        let origin = SettingOrigin::Environment(name.to_owned());
        let Some(value) = value.to_str() else {
            problems.push(ConfigProblem { origin, message: "the value is not UTF-8".to_owned() });
            continue;
        };
        let segments: Vec<&str> = rest.split("__").collect();
        apply_value(root, &segments, value, origin, problems);
    }
    ignored
}

/// Whether a variable, without its prefix, is one that Kubernetes gives every pod beside a service named `satchel`:
/// `SERVICE_HOST`, `SERVICE_PORT`, `SERVICE_PORT_HTTP`, `PORT`, `PORT_8787_TCP`, `PORT_8787_TCP_ADDR` and the like.
fn is_set_by_kubernetes(rest: &str) -> bool {
    let is_port_variable = |rest: &str| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let protocol = |name| rest[digits..].strip_prefix(name);
        let protocol_end = protocol("_TCP").or_else(|| protocol("_UDP")).or_else(|| protocol("_SCTP"));
        digits > 0 && protocol_end.is_some_and(|end| matches!(end, "" | "_PROTO" | "_PORT" | "_ADDR"))
    };
    matches!(rest, "SERVICE_HOST" | "SERVICE_PORT" | "PORT")
        || rest.starts_with("SERVICE_PORT_")
        || rest.strip_prefix("PORT_").is_some_and(is_port_variable)
}

/// Applies the `key=value` pairs of `--set` to the tree; later ones replace earlier ones.
pub(crate) fn apply_set_flags(root: &mut ConfigNode, pairs: &[String], problems: &mut Vec<ConfigProblem>) {
    for flag in pairs {
        // The pair itself is not repeated: it may be a secret without its key.
        let Some((key, value)) = flag.split_once('=') else {
            let message = "expected KEY=VALUE, such as `--set delivery.max_age=12h`".to_owned();
            problems.push(ConfigProblem { origin: SettingOrigin::CommandLine, message });
            continue;
        };
        let segments: Vec<&str> = key.trim().split('.').collect();
        apply_value(root, &segments, value, SettingOrigin::CommandLine, problems);
    }
}

/// The environment variable that sets a key.
pub(crate) fn variable_name(key: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", key.replace('.', "__").replace('-', "_").to_uppercase())
}

fn apply_value(
    root: &mut ConfigNode,
    segments: &[&str],
    value: &str,
    origin: SettingOrigin,
    problems: &mut Vec<ConfigProblem>,
) {
    if segments.iter().any(|segment| segment.is_empty()) {
        let message = "names no setting: a part of the name is empty".to_owned();
        problems.push(ConfigProblem { origin, message });
        return;
    }
    let mut node = root;
    for (depth, segment) in segments.iter().enumerate() {
        if node.value == ConfigValue::Null {
            node.value = ConfigValue::Section(Vec::new());
        }
        let ConfigValue::Section(entries) = &mut node.value else {
            let message = format!("`{}` is a value and no section", segments[..depth].join(".").to_lowercase());
            problems.push(ConfigProblem { origin, message });
            return;
        };
        let exact = entries.iter().position(|(name, _)| name == segment);
        let index = match exact.or_else(|| entries.iter().position(|(name, _)| is_same_name(name, segment))) {
            Some(index) => index,
            None => {
                entries.push((segment.to_lowercase(), ConfigNode { value: ConfigValue::Null, origin: origin.clone() }));
                entries.len() - 1
            }
        };
        node = &mut entries[index].1;
    }
    *node = ConfigNode { value: ConfigValue::Untyped(value.to_owned()), origin };
}

fn is_same_name(name: &str, segment: &str) -> bool {
    name.replace('-', "_").eq_ignore_ascii_case(&segment.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use super::*;
    use crate::config::tree;

    #[test]
    fn exact_name_wins_over_similar_one() {
        let file = "models:\n  a-b: {model: x}\n  a_b: {model: y}\n";
        for (key, changed, other) in [("a_b", "models.a_b", "models.a-b"), ("a-b", "models.a-b", "models.a_b")] {
            let path = Arc::from(Path::new("satchel.yaml"));
            let mut root = tree::from_yaml(&path, &tree::parse(&path, file).unwrap()).unwrap();
            let mut problems = Vec::new();
            apply_set_flags(&mut root, &[format!("models.{key}.model=z")], &mut problems);
            let value = |section: &str| root.find(&format!("{section}.model")).unwrap().value.clone();
            assert_eq!((value(changed), problems.len()), (ConfigValue::Untyped("z".to_owned()), 0), "{key}");
            assert!(matches!(value(other), ConfigValue::Text(_)), "{key}");
        }
    }
}
