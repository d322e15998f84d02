//! Configuration mistakes: the process exits with 2, reports the position, and changes nothing.

use satchel_system::real_binary::{TestHome, run_to_end};

/// A mistake outside the file: its name, arguments, environment, and the expected error texts.
type ConfigMistake =
    (&'static str, &'static [&'static str], &'static [(&'static str, &'static str)], &'static [&'static str]);

#[test]
fn config_file_mistake_ends_process_with_position() {
    let cases: [(&str, &[u8], &[&str]); 10] = [
        ("unknown key", b"turn:\n  model_calsl: 3\n", &["satchel.yaml:2:3:", "did you mean `turn.model_calls`?"]),
        ("wrong type", b"turn:\n  model_calls: many\n", &["satchel.yaml:2:3:", "whole number", "\"many\""]),
        ("out of range", b"turn:\n  model_calls: 0\n", &["satchel.yaml:2:3:", "from 1 to 1000"]),
        ("no YAML", b"turn: [1, 2\n", &["satchel.yaml:1:7:", "not readable as YAML"]),
        ("key twice", b"turn:\n  model_calls: 3\n  model_calls: 4\n", &["satchel.yaml:3:3:", "twice"]),
        ("tab", b"delivery:\n\tpace: off\n", &["satchel.yaml:2:1:", "tab"]),
        ("unknown name", b"model: gpt\n", &["satchel.yaml:1:1:", "offline"]),
        ("not built yet", b"mcp:\n  c: {}\n", &["satchel.yaml:1:1:", "not built yet"]),
        ("not UTF-8", b"turn:\n  model_calls: \xff\n", &["satchel.yaml", "not UTF-8 at byte 21"]),
        ("several", b"trun: 1\nturn:\n  tool_calls: x\n", &["satchel.yaml:1:1:", "satchel.yaml:3:3:"]),
    ];
    for (case, yaml, expected_texts) in cases {
        let home = TestHome::new();
        home.write_file("satchel.yaml", yaml);
        for arguments in [&["chat", "--once", "hi"][..], &["run"], &["outbox", "list"], &["config", "check"]] {
            let output = home.run(arguments);
            output.assert_no_crash(case);
            assert_eq!(output.exit_code(), Some(2), "{case}, {arguments:?}: {output:#?}");
            for words in expected_texts {
                assert!(output.stderr.contains(words), "{case}, {arguments:?}: no {words:?} in {:?}", output.stderr);
            }
            assert_eq!(output.stdout, "", "{case}, {arguments:?}");
        }
        assert!(!home.data_directory().exists(), "{case}: nothing was begun");
    }
}

#[test]
fn mistakes_outside_the_file_name_their_source() {
    let cases: [ConfigMistake; 7] = [
        ("environment, value", &[], &[("SATCHEL_TURN__MODEL_CALLS", "x")], &["SATCHEL_TURN__MODEL_CALLS:", "\"x\""]),
        ("environment, name", &[], &[("SATCHEL_TURN__MODELS", "1")], &["SATCHEL_TURN__MODELS:"]),
        ("--set without value", &["--set", "turn.model_calls"], &[], &["--set", "KEY=VALUE"]),
        ("--set, unknown", &["--set", "turn.model_cals=1"], &[], &["--set", "did you mean `turn.model_calls`?"]),
        ("no such file", &["--config", "nowhere.yaml"], &[], &["nowhere.yaml", "No such file"]),
        ("log filter", &["--log", "a=b=c"], &[], &["a=b=c"]),
        ("option", &["--bogus"], &[], &["--bogus", "--help"]),
    ];
    for (case, arguments, environment, expected_texts) in cases {
        let home = TestHome::new();
        let mut command = home.satchel_command(arguments);
        command.args(["chat", "--once", "hi"]).envs(environment.iter().copied());
        let output = run_to_end(&mut command);
        output.assert_no_crash(case);
        assert_eq!(output.exit_code(), Some(2), "{case}: {output:#?}");
        for words in expected_texts {
            assert!(output.stderr.contains(words), "{case}: no {words:?} in {:?}", output.stderr);
        }
        assert!(!home.data_directory().exists(), "{case}: nothing was begun");
    }
}

#[test]
fn service_variables_of_kubernetes_stop_nothing() {
    let home = TestHome::new();
    let mut command = home.satchel_command(&["chat", "--once", "hi"]);
    let service = [("SATCHEL_SERVICE_HOST", "10.0.171.239"), ("SATCHEL_PORT_8787_TCP", "tcp://10.0.171.239:8787")];
    let output = run_to_end(command.envs(service));
    assert_eq!((output.exit_code(), output.stderr.as_str()), (Some(0), ""), "{output:#?}");

    let mistaken =
        run_to_end(home.satchel_command(&["chat", "--once", "hi"]).env("SATCHEL_TELEGRAM_TOKEN", "never-shown"));
    assert_eq!(mistaken.exit_code(), Some(0), "{mistaken:#?}");
    assert!(mistaken.stderr.contains("WARN"), "{mistaken:#?}");
    assert!(mistaken.stderr.contains("did you mean SATCHEL_TELEGRAM__TOKEN?"), "{mistaken:#?}");
    assert!(!mistaken.stderr.contains("never-shown"), "{mistaken:#?}");
}
