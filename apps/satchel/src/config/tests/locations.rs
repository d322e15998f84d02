//! Where the configuration is looked for, and what paths in it count from.

use satchel_speech::EngineSettings;

use super::*;

#[test]
fn the_file_is_looked_for_in_order() {
    let place = Place::with("model: offline\n").file("other.yaml", "model: offline\n").file("third.yaml", "{}\n");
    let home = place.dir.path().join("home/.config/satchel");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("satchel.yaml"), "{}\n").unwrap();
    let cwd = place.dir.path();
    let environment = [(OsString::from("SATCHEL_CONFIG"), OsString::from("other.yaml"))];
    let found = |file: Option<&Path>, environment: &[(OsString, OsString)], cwd: &Path| {
        let sources = ConfigSources { file, set: &[], environment, cwd };
        load(&sources).unwrap().file.map(|path| path.display().to_string())
    };
    assert_eq!(found(Some(Path::new("third.yaml")), &environment, cwd).as_deref(), Some("third.yaml"));
    assert_eq!(found(None, &environment, cwd).as_deref(), Some("other.yaml"));
    assert_eq!(found(None, &[], cwd).as_deref(), Some("satchel.yaml"));
    let elsewhere = tempfile::tempdir().unwrap();
    let with_home = [(OsString::from("HOME"), cwd.join("home").into_os_string())];
    assert_eq!(found(None, &with_home, elsewhere.path()), Some(home.join("satchel.yaml").display().to_string()));
    assert_eq!(found(None, &[], elsewhere.path()), None);
}

#[test]
fn configuration_of_the_service_is_looked_for_last() {
    let place = Place::empty().file("system.yaml", "{}\n").file("named.yaml", "{}\n");
    let cwd = place.dir.path().join("cwd");
    let home = place.dir.path().join("home");
    let user_file = home.join(".config/satchel/satchel.yaml");
    fs::create_dir_all(user_file.parent().unwrap()).unwrap();
    fs::create_dir(&cwd).unwrap();
    let system_file = place.dir.path().join("system.yaml");
    let environment = [(OsString::from("HOME"), home.into_os_string())];
    let find = |named: Option<&Path>| paths::find_config_file(named, &environment, &cwd, &system_file);
    assert_eq!(find(None).as_ref(), Some(&system_file));
    assert_eq!(paths::find_config_file(None, &[], &cwd, &system_file).as_ref(), Some(&system_file), "without a home");
    fs::write(&user_file, "{}\n").unwrap();
    assert_eq!(find(None), Some(user_file));
    fs::write(cwd.join("satchel.yaml"), "{}\n").unwrap();
    assert_eq!(find(None).as_deref(), Some(Path::new("satchel.yaml")));
    assert_eq!(find(Some(Path::new("named.yaml"))).as_deref(), Some(Path::new("named.yaml")));
    fs::remove_file(&system_file).unwrap();
    assert_eq!(paths::find_config_file(None, &[], place.dir.path(), &system_file), None);
}

#[test]
fn data_of_the_service_is_that_of_its_unit() {
    let place = Place::with("{}\n").env("HOME", "/home/me");
    let data_dir = |file: &str| paths::data_dir(Some(Path::new(file)), &place.environment, place.dir.path());
    assert_eq!(data_dir("/etc/satchel/satchel.yaml"), Path::new("/var/lib/satchel"), "wherever the command is started");
    assert_eq!(data_dir("satchel.yaml"), place.dir.path().join("satchel-data"));
}

#[test]
fn data_goes_where_the_configuration_is_or_home() {
    let data_dir = |place: &Place| {
        let dir = place.config().storage.data_dir().display().to_string();
        dir.replace(&place.dir.path().display().to_string(), "<dir>")
    };
    assert_eq!(data_dir(&Place::with("{}\n").env("HOME", "/home/me")), "<dir>/satchel-data");
    assert_eq!(data_dir(&Place::empty().env("HOME", "/home/me")), "/home/me/.local/share/satchel");
    assert_eq!(data_dir(&Place::empty().env("XDG_DATA_HOME", "/data").env("HOME", "/h")), "/data/satchel");
    assert_eq!(data_dir(&Place::empty().env("XDG_DATA_HOME", "data")), "<dir>/satchel-data");
    let place = Place::empty().env("HOME", "/home/me");
    fs::create_dir(place.dir.path().join("satchel-data")).unwrap();
    assert_eq!(data_dir(&place), "<dir>/satchel-data");
    assert_eq!(data_dir(&Place::with("storage:\n  data_dir: d\n")), "<dir>/d");
}

#[test]
fn paths_in_a_file_count_from_the_file() {
    let place = Place::empty();
    fs::create_dir(place.dir.path().join("etc")).unwrap();
    fs::write(place.dir.path().join("etc/s.yaml"), "storage:\n  data_dir: d\n  database_url: sqlite:l/satchel.db\n")
        .unwrap();
    let place = place.env("SATCHEL_CONFIG", "etc/s.yaml").env("SATCHEL_WORKSPACE__SHARED_DIR", "w");
    let config = place.config();
    assert_eq!(config.storage.data_dir(), place.dir.path().join("etc/d"));
    let Some(storage::DatabaseBackend::Sqlite { directory }) = config.storage.database_url else {
        panic!("a file was named")
    };
    assert_eq!(directory, place.dir.path().join("etc/l/"));
    assert_eq!(config.workspace.shared_dir.unwrap().0, place.dir.path().join("w"));
}

/// A scripter's job names its file and is started anywhere.
#[test]
fn default_data_of_a_named_file_lies_beside_it() {
    let (place, elsewhere) = (Place::empty(), tempfile::tempdir().unwrap());
    let (etc, home) = (place.dir.path().join("etc"), place.dir.path().join("home"));
    let user_directory = home.join(".config/satchel");
    for directory in [&etc, &user_directory, &elsewhere.path().join("satchel-data")] {
        fs::create_dir_all(directory).unwrap();
    }
    let speak = "speech: { speak: { command: [./say.sh, -v, en] }, transcribe: { command: [listen] } }\n";
    fs::write(etc.join("family.yaml"), speak).unwrap();
    fs::write(user_directory.join("satchel.yaml"), "{}\n").unwrap();
    let load_from = |cwd: &Path, file: Option<&Path>, variable: Option<&Path>| {
        let mut environment = vec![(OsString::from("HOME"), home.clone().into_os_string())];
        environment.extend(variable.map(|file| (OsString::from("SATCHEL_CONFIG"), file.into())));
        let sources = ConfigSources { file, set: &[], environment: &environment, cwd };
        load(&sources).unwrap().into_config().unwrap()
    };
    let command = |engine: Option<EngineSettings>| match engine {
        Some(EngineSettings::Program(engine)) => engine.command,
        _ => Vec::new(),
    };
    let named = etc.join("family.yaml");
    for (cwd, file, variable) in [
        (elsewhere.path(), Some(named.as_path()), None),
        (elsewhere.path(), None, Some(named.as_path())),
        (place.dir.path(), Some(Path::new("etc/family.yaml")), None),
        (etc.as_path(), Some(Path::new("family.yaml")), None),
    ] {
        let config = load_from(cwd, file, variable);
        assert_eq!(config.storage.data_dir(), etc.join("satchel-data"), "{} {file:?}", cwd.display());
        let program = etc.join("./say.sh").to_str().unwrap().to_owned();
        assert_eq!(command(config.speech.speak_engine()), [program.as_str(), "-v", "en"]);
        assert_eq!(command(config.speech.transcribe_engine()), ["listen"], "a name is looked for in PATH");
    }
    // The user's own file means the same data whether it is named or found.
    let user_file = user_directory.join("satchel.yaml");
    let data_of = |file| load_from(place.dir.path(), file, None).storage.data_dir().to_owned();
    assert_eq!(data_of(Some(user_file.as_path())), home.join(".local/share/satchel"));
    assert_eq!(data_of(None), home.join(".local/share/satchel"));
}

/// Catches: a `/shared` through which every conversation reads and changes the data or the settings.
#[test]
fn shared_directory_holds_no_data_and_settings() {
    let complaint = |settings: &str, shared: &str| {
        let place = Place::with(&format!("{settings}workspace: {{ shared_dir: '{shared}' }}\n"));
        fs::create_dir(place.dir.path().join("family")).unwrap();
        place.file("family/who.md", "You are Ada's.").complaint()
    };
    for (settings, shared, path) in [
        ("", ".", "<dir>/satchel-data"),
        ("storage: { data_dir: family/data }\n", "family", "<dir>/family/data"),
        ("storage: { data_dir: data }\n", "data/workspaces", "<dir>/data"),
        ("storage: { database_url: 'sqlite:family/satchel.db' }\n", "family", "<dir>/family"),
        ("storage: { blobs_url: 'file:family/blobs' }\n", "family", "<dir>/family/blobs"),
        ("backup: { to: backups }\n", "backups/shared", "<dir>/backups"),
        ("instructions_file: family/who.md\n", "family", "<dir>/family/who.md"),
        ("storage: { data_dir: /srv/satchel }\n", "../", "<dir>/satchel.yaml"),
    ] {
        let complaint = complaint(settings, shared);
        let expected = format!("`workspace.shared_dir` must be a directory apart from {path}");
        assert!(complaint.contains(&expected), "{settings}{shared}: {complaint}");
    }
    for (settings, shared) in [("", "family"), ("storage: { data_dir: data }\n", "data/family")] {
        assert_eq!(complaint(settings, shared), "accepted", "{settings}{shared}");
    }
}
