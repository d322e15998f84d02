//! Where the configuration is looked for, and what paths in it count from.

use satchel_speech::EngineSettings;

use super::*;
use crate::commands::existing_data::check_earlier_default;

#[test]
fn the_file_is_looked_for_in_order() {
    let place = Place::with("model: offline\n").file("other.yaml", "model: offline\n").file("third.yaml", "{}\n");
    let user_file = place.directory("home/.config/satchel").join("satchel.yaml");
    let service_file = place.directory("etc/satchel").join("satchel.yaml");
    for file in [&user_file, &service_file] {
        fs::write(file, "{}\n").unwrap();
    }
    let (cwd, elsewhere) = (place.dir.path().to_owned(), tempfile::tempdir().unwrap());
    let found = |place: &Place, file: Option<&str>, cwd: &Path| {
        let loaded = place.load_from(cwd, file.map(Path::new)).unwrap();
        loaded.file.map(|path| path.display().to_string())
    };
    let home = cwd.join("home").display().to_string();
    let place = place.env("HOME", &home).env("SATCHEL_CONFIG", "other.yaml");
    assert_eq!(found(&place, Some("third.yaml"), &cwd).as_deref(), Some("third.yaml"));
    assert_eq!(found(&place, None, &cwd).as_deref(), Some("other.yaml"));
    let place = Place { environment: Vec::new(), ..place }.env("HOME", &home);
    assert_eq!(found(&place, None, &cwd).as_deref(), Some("satchel.yaml"));
    assert_eq!(found(&place, None, elsewhere.path()), Some(user_file.display().to_string()));
    fs::remove_file(&user_file).unwrap();
    assert_eq!(found(&place, None, elsewhere.path()), Some(service_file.display().to_string()));
    let place = Place { environment: Vec::new(), ..place };
    assert_eq!(found(&place, None, elsewhere.path()), Some(service_file.display().to_string()), "without a home");
    fs::remove_file(&service_file).unwrap();
    assert_eq!(found(&place, None, elsewhere.path()), None);
}

/// Catches: a service's file that takes a person's conversations away from them.
#[test]
fn file_of_the_service_leaves_people_who_have_data_alone() {
    let place = Place::empty();
    let service_file = place.directory("etc/satchel").join("satchel.yaml");
    fs::write(&service_file, "{}\n").unwrap();
    let home = place.directory("home").display().to_string();
    let place = place.env("HOME", &home);
    let cwd = place.directory("cwd");
    let found = |cwd: &Path| place.load_from(cwd, None).unwrap().file;
    assert_eq!(found(&cwd).as_ref(), Some(&service_file));
    // The data of the service's own user, whose home it is, is no other Satchel's.
    fs::write(place.directory("var/satchel/satchel-data").join("satchel.db"), "").unwrap();
    assert_eq!(found(&place.directory("var/satchel")).as_ref(), Some(&service_file));
    for own in ["home/.local/share/satchel", "cwd/satchel-data"] {
        let own = place.directory(own);
        assert_eq!(found(&cwd).as_ref(), Some(&service_file), "a directory without data is nobody's");
        fs::write(own.join("satchel.db"), "").unwrap();
        assert_eq!(found(&cwd), None, "{}", own.display());
        assert_eq!(place.load_from(&cwd, None).unwrap().config().storage.data_dir(), own);
        fs::remove_file(own.join("satchel.db")).unwrap();
    }
}

#[test]
fn data_of_the_service_is_that_of_its_unit() {
    let place = Place::empty();
    let home = place.directory("home").display().to_string();
    let place = place.env("HOME", &home).file("named.yaml", "{}\n");
    let etc = place.directory("etc/satchel");
    let service_file = etc.join("satchel.yaml");
    fs::write(&service_file, "{}\n").unwrap();
    let (service_data, other) = (place.dir.path().join("var/satchel"), place.directory("etc/other"));
    let data_dir = |cwd: &Path, file: Option<&str>| {
        place.load_from(cwd, file.map(Path::new)).unwrap().config().storage.data_dir().to_owned()
    };
    let absolute = service_file.to_str();
    for (cwd, file) in [
        (&other, absolute),
        (&other, None),
        (&other, Some("../satchel/satchel.yaml")),
        (&etc, absolute),
        (&etc, None),
        (&etc, Some("satchel.yaml")),
        (&etc, Some("./satchel.yaml")),
    ] {
        assert_eq!(data_dir(cwd, file), service_data, "{} {file:?}", cwd.display());
    }
    assert_eq!(data_dir(place.dir.path(), Some("named.yaml")), place.dir.path().join("satchel-data"));
    // As `init` writes it, and then says where the data will be.
    fs::remove_file(&service_file).unwrap();
    let paths = |cwd: &Path, file: &str| {
        let service = ServicePaths { file: &service_file, data_dir: &service_data };
        let paths = DefaultPaths { option: None, environment: &place.environment, cwd, service };
        paths.data_dir(Some(Path::new(file)))
    };
    assert_eq!(paths(&etc, "satchel.yaml"), service_data);
    assert_eq!(paths(&other, "satchel.yaml"), place.dir.path().join("home/.local/share/satchel"));
}

#[test]
fn data_of_the_users_own_file_is_in_their_home_wherever_they_are() {
    let place = Place::empty();
    let user_directory = place.directory("home/.config/satchel");
    fs::write(user_directory.join("satchel.yaml"), "{}\n").unwrap();
    let home = place.dir.path().join("home");
    let place = place.env("HOME", home.to_str().unwrap());
    let elsewhere = place.directory("elsewhere");
    let absolute = user_directory.join("satchel.yaml");
    for (cwd, file) in [
        (&elsewhere, None),
        (&elsewhere, Some(absolute.as_path())),
        (&elsewhere, Some(Path::new("../home/.config/satchel/satchel.yaml"))),
        (&user_directory, None),
        (&user_directory, Some(Path::new("satchel.yaml"))),
        (&user_directory, Some(absolute.as_path())),
    ] {
        let loaded = place.load_from(cwd, file).unwrap();
        let data_dir = loaded.config().storage.data_dir();
        assert_eq!(data_dir, home.join(".local/share/satchel"), "{} {file:?}", cwd.display());
    }
}

/// Catches: a Satchel that is started by the unit of an earlier version, and is empty.
#[test]
fn data_of_an_earlier_version_is_not_left_behind_in_silence() {
    let place = Place::empty();
    let service_file = place.directory("etc/satchel").join("satchel.yaml");
    fs::write(&service_file, "{}\n").unwrap();
    let service_data = place.directory("var/satchel");
    let place = place.env("HOME", service_data.to_str().unwrap()).file("family.yaml", "{}\n");
    let family_file = place.dir.path().join("family.yaml");
    let refusal = |cwd: &Path, file: &Path, place: &Place| {
        let loaded = place.load_from(cwd, Some(file)).unwrap();
        check_earlier_default(loaded.config()).err().map(|error| error.to_string())
    };
    let (root, elsewhere) = (place.directory("root"), place.directory("elsewhere"));
    for (cwd, file, earlier) in [
        (&service_data, &service_file, "var/satchel/.local/share/satchel"),
        (&elsewhere, &service_file, "var/satchel/.local/share/satchel"),
        (&elsewhere, &family_file, "var/satchel/.local/share/satchel"),
        (&service_data, &service_file, "var/satchel/satchel-data"),
        (&root, &service_file, "var/satchel/satchel-data"),
        (&root, &family_file, "root/satchel-data"),
    ] {
        let earlier = place.directory(earlier);
        assert_eq!(refusal(cwd, file, &place), None, "a directory without a database has no data");
        let database = earlier.join("satchel.db");
        fs::write(&database, "").unwrap();
        let new = place.load_from(cwd, Some(file)).unwrap().config().storage.data_dir().to_owned();
        let refusal_text = refusal(cwd, file, &place).expect("it is refused");
        for told in [
            format!("there is no data in {},", new.display()),
            format!("`storage.data_dir: {}` keeps that data", earlier.display()),
            format!("`storage.data_dir: {}` starts without it", new.display()),
        ] {
            assert!(refusal_text.contains(&told), "no {told:?} in {refusal_text}");
        }
        let (for_new_one, for_that_one) =
            (refusal_text.find("starts without it"), refusal_text.find("keeps that data"));
        assert!(for_new_one < for_that_one, "what mixes nobody's data stands first: {refusal_text}");
        // What is chosen, or there already, is meant.
        fs::create_dir_all(&new).unwrap();
        fs::write(new.join("satchel.db"), "").unwrap();
        assert_eq!(refusal(cwd, file, &place), None);
        fs::remove_file(new.join("satchel.db")).unwrap();
        for chosen in [&new, &earlier] {
            let environment = place.environment.clone();
            let set = vec![format!("storage.data_dir={}", chosen.display())];
            let with_choice = Place { dir: tempfile::tempdir().unwrap(), environment, set };
            assert_eq!(refusal(cwd, file, &with_choice), None);
        }
        fs::remove_file(&database).unwrap();
    }
}

/// Catches: a second Satchel that is refused, and told to use the data of the first.
#[test]
fn second_satchel_starts_beside_one_that_has_a_configuration() {
    let place = Place::empty();
    let home = place.dir.path().join("home");
    let place = place.env("HOME", home.to_str().unwrap());
    let file = place.directory("work").join("satchel.yaml");
    fs::write(&file, "{}\n").unwrap();
    let (elsewhere, own) = (place.directory("elsewhere"), place.directory("own"));
    let user_file = place.directory("home/.config/satchel").join("satchel.yaml");
    for (cwd, other_file, other_data) in [
        (&elsewhere, user_file.clone(), home.join(".local/share/satchel")),
        (&own, own.join("satchel.yaml"), own.join("satchel-data")),
    ] {
        fs::create_dir_all(&other_data).unwrap();
        fs::write(other_data.join("satchel.db"), "").unwrap();
        let is_refused = |option: Option<&Path>| {
            let loaded = place.load_from(cwd, option).unwrap();
            check_earlier_default(loaded.config()).is_err()
        };
        assert!(is_refused(Some(&file)), "nobody else's configuration has {}", other_data.display());
        fs::write(&other_file, "{}\n").unwrap();
        assert!(!is_refused(Some(&file)), "{} has {}", other_file.display(), other_data.display());
        assert!(!is_refused(None), "it goes on with its own data");
    }
    // Its own file, which stands where one is looked for, is no other one.
    let user_directory = home.join(".config/satchel");
    fs::remove_file(home.join(".local/share/satchel/satchel.db")).unwrap();
    fs::create_dir_all(user_directory.join("satchel-data")).unwrap();
    fs::write(user_directory.join("satchel-data/satchel.db"), "").unwrap();
    let loaded = place.load_from(&user_directory, Some(&user_file)).unwrap();
    assert!(check_earlier_default(loaded.config()).is_err());
}

/// As of a person whose own Satchel has no configuration. What a process has open is seen on Linux only.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn second_satchel_starts_beside_one_that_runs() {
    let place = Place::empty();
    let other_data = place.directory("home/.local/share/satchel");
    let home = place.dir.path().join("home");
    let place = place.env("HOME", home.to_str().unwrap());
    let (elsewhere, file) = (place.directory("elsewhere"), place.directory("work").join("satchel.yaml"));
    fs::write(&file, "{}\n").unwrap();
    let is_refused = || {
        let loaded = place.load_from(&elsewhere, Some(&file)).unwrap();
        check_earlier_default(loaded.config()).is_err()
    };
    let other = crate::stores::open_ledger(&other_data).await.unwrap();
    assert!(!is_refused());
    drop(other);
    assert!(is_refused());
}

/// A database on a server says nothing of where the files are.
#[test]
fn files_of_an_earlier_version_are_not_left_behind_in_silence() {
    let place = Place::empty();
    let home = place.directory("home").display().to_string();
    let place = place.env("HOME", &home).file("etc.yaml", "storage: { database_url: 'postgres://db/satchel' }\n");
    let (elsewhere, file) = (place.directory("elsewhere"), place.dir.path().join("etc.yaml"));
    let is_refused = |place: &Place| {
        let loaded = place.load_from(&elsewhere, Some(&file)).unwrap();
        check_earlier_default(loaded.config()).is_err()
    };
    assert!(!is_refused(&place));
    place.directory("home/.local/share/satchel/blobs");
    assert!(is_refused(&place));
    place.directory("satchel-data/blobs");
    assert!(!is_refused(&place));
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
        let place = Place { dir: tempfile::tempdir().unwrap(), environment, set: Vec::new() };
        place.load_from(cwd, file).unwrap().into_config().unwrap()
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
