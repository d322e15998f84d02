//! Files that can't be accepted, and hostile file names.

use std::{
    ffi::OsStr,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt, fs::symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use satchel_domain::{Ending, Filename, filename::is_unsafe_char};
use satchel_fake_kit::FakeFile;
use satchel_fake_telegram::TelegramRules;
use satchel_local::OfflineModel;
use satchel_requirements::{is_superuser, required};
use satchel_system::{
    crash::ChannelAdapter,
    real_binary::{TestHome, run_to_end, satchel_binary},
};

use crate::{
    product::{Product, ProductSetup},
    test_platform::PlatformRules,
};

#[test]
fn unusable_file_is_reported_and_others_are_stored() {
    let home = TestHome::new();
    home.write_file("satchel.yaml", "attachments:\n  max_inbound_file_bytes: 1MiB\n");
    let work = home.work_directory();
    let oversize = home.write_file("oversize.bin", []);
    let large = std::fs::File::options().write(true).open(&oversize).expect("it was just made");
    large.set_len(3 << 30).expect("a file without content takes no room");
    std::fs::create_dir(work.join("folder")).expect("a directory");
    symlink("/nowhere/at/all", work.join("dangling")).expect("a link");
    let pipe = Command::new("mkfifo").arg(work.join("pipe")).status().expect("coreutils are there");
    assert!(pipe.success());
    let cases = [
        ("gone.txt", "no such file"),
        ("folder", "directory"),
        ("dangling", "no such file"),
        ("pipe", "only regular files"),
        ("oversize.bin", "it is 3.2 GB, the limit is 1 MB"),
    ];
    let kept = home.write_file("kept.txt", "kept");
    for (name, reason) in cases {
        let output = home.run_once("save these", &[Path::new(name), &kept]);
        output.assert_no_crash(name);
        let report = output.json();
        assert_eq!(report["refused"][0]["filename"], name, "{report:#}");
        let given_reason = report["refused"][0]["reason"].as_str().unwrap_or_default();
        assert!(given_reason.contains(reason), "{name}: {given_reason}");
        let reply = output.reply();
        assert!(reply.contains(name) && reply.contains(given_reason), "{name}: the person reads why: {reply}");
        assert!(reply.contains("kept"), "{name}: the other file is worked on: {reply}");
    }
    let listed = home.run(&["attachments", "list", "--json"]).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(cases.len()), "the other file was kept each time: {listed:#}");
}

#[test]
fn empty_and_equally_named_files_stay_separate() {
    let home = TestHome::new();
    let empty = home.write_file("empty.txt", []);
    std::fs::create_dir(home.work_directory().join("other")).expect("a directory");
    let (one, other) = (home.write_file("a.txt", "one"), home.write_file("other/a.txt", "other"));
    let output = home.run_once("save all to things and send everything", &[&empty, &one, &other]);
    output.assert_no_crash("names");
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    let told = output.json();
    let contents: Vec<(String, String)> = told["parts"]
        .as_array()
        .expect("parts are a list")
        .iter()
        .filter_map(|part| part["path"].as_str())
        .map(|path| {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).expect("a delivered file is there"))
        })
        .collect();
    // They come back in the order in which they were attached; `#2` and `#3` are who was stored first.
    let delivered: Vec<&str> = contents.iter().map(|(_, content)| content.as_str()).collect();
    assert_eq!(delivered, ["", "one", "other"]);
    assert!(contents.iter().zip(["-empty.txt", "-a.txt", "-a.txt"]).all(|((name, _), end)| name.ends_with(end)));
    let shared = home.data_directory().join("workspaces/console=main/shared/things");
    let mut saved: Vec<(String, String)> = std::fs::read_dir(shared)
        .expect("they were saved")
        .flatten()
        .map(|entry| {
            let content = std::fs::read_to_string(entry.path()).expect("a saved file can be read");
            (entry.file_name().to_string_lossy().into_owned(), content)
        })
        .collect();
    saved.sort();
    assert_eq!(
        saved,
        [("a-2.txt", "other"), ("a.txt", "one"), ("empty.txt", "")].map(|(n, c)| (n.to_owned(), c.to_owned()))
    );
}

#[test]
fn file_without_permission_is_reported_with_reason() {
    let home = TestHome::new();
    let secret = home.write_file("secret.txt", "nobody's business");
    let kept = home.write_file("kept.txt", "kept");
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o000)).expect("it is ours");
    let Some(mut command) = required(command_without_privileges(&home)) else { return };
    command.args(["chat", "--once", "save these", "--json", "--attach"]).arg(&secret).arg("--attach").arg(&kept);
    let output = run_to_end(&mut command);
    output.assert_no_crash("permission");
    let told = output.json();
    assert_eq!(told["refused"][0]["filename"], "secret.txt", "{told:#}");
    assert!(output.reply().contains("permission"), "{}", output.reply());
    assert!(output.reply().contains("kept.txt"), "{}", output.reply());
}

/// The binary as somebody who isn't root and to whom the household's directories are given: already is whoever isn't root.
pub(super) fn command_without_privileges(home: &TestHome) -> Result<Command, &'static str> {
    if !is_superuser() {
        let mut command = Command::new(satchel_binary());
        home.apply_to(&mut command);
        return Ok(command);
    }
    // The build directory may be closed to others, so the binary is brought along.
    let binary = home.root().join("satchel");
    std::fs::copy(satchel_binary(), &binary).expect("the binary can be copied");
    let chown_status =
        Command::new("chown").args(["-R", "65534:65534"]).arg(home.root()).stderr(Stdio::null()).status();
    let switch = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let switch_status = Command::new("setpriv").args(switch).arg("true").stderr(Stdio::null()).status();
    if !chown_status.is_ok_and(|status| status.success()) || !switch_status.is_ok_and(|status| status.success()) {
        return Err("chown and setpriv, by which the superuser becomes somebody else");
    }
    let mut command = Command::new("setpriv");
    home.apply_to(&mut command);
    command.args(switch).arg(binary);
    Ok(command)
}

#[test]
fn names_from_the_command_line_are_made_harmless() {
    let cases: [(&[u8], &str); 6] = [
        (b"control\n\x1b[2Jx.txt", "control[2Jx.txt"),
        ("overr\u{202e}ide.txt".as_bytes(), "override.txt"),
        ("e\u{301}.txt".as_bytes(), "\u{e9}.txt"),
        (b"  spaces  .txt", "spaces  .txt"),
        (b"$(reboot);'\"`.txt", "$(reboot);'\"`.txt"),
        ("\u{4f60}\u{597d} \u{1f642}.txt".as_bytes(), "\u{4f60}\u{597d} \u{1f642}.txt"),
    ];
    let home = TestHome::new();
    let paths: Vec<PathBuf> = cases.iter().map(|(name, _)| home.write_file(OsStr::from_bytes(name), name)).collect();
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let output = home.run_once("save all to names and send them back", &paths);
    output.assert_no_crash("names");
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    assert!(!output.stdout.contains('\u{1b}') && !output.stdout.contains('\u{202e}'));
    let all = output.json()["response"]["attachments"].clone();
    for (content, name) in &cases {
        let listed = all.as_array().into_iter().flatten().find(|file| file["filename"] == *name);
        let listed = listed.unwrap_or_else(|| panic!("{name:?} isn't among {all:#}"));
        let delivered = home.work_directory().join("files").join(format!("{}-{name}", listed["number"]));
        assert_eq!(std::fs::read(&delivered).ok().as_deref(), Some(*content), "{}", delivered.display());
    }
}

#[test]
fn non_utf8_path_is_reported_with_reason() {
    let home = TestHome::new();
    let path = home.write_file(OsStr::from_bytes(b"bad\xff.txt"), "x");
    let output = home.run_once("save this", &[&path]);
    output.assert_no_crash("not UTF-8");
    let reason = output.json()["refused"][0]["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("UTF-8"), "{reason}");
}

#[tokio::test]
async fn platform_filenames_are_sanitized_and_round_trip() {
    let long = format!("{}.tar", "\u{451}".repeat(148));
    let names = [
        "plain.txt",
        "plain.txt",
        "a\r\nSet-Cookie: x.txt",
        "invoice\u{202e}fdp.exe",
        "zero\u{200b}width\u{feff}.txt",
        "../../etc/passwd",
        "C:\\Users\\me\\scan.pdf",
        "e\u{301}.txt",
        "nul\0byte.txt",
        "CON",
        "trailing. . .",
        "[[satchel.attachments]]{}[[",
        "",
        long.as_str(),
    ];
    let product =
        Product::start(ProductSetup::for_platform(ChannelAdapter::Telegram), Arc::new(OfflineModel::default())).await;
    let files: Vec<FakeFile> = names
        .iter()
        .enumerate()
        .map(|(at, name)| FakeFile::from_bytes(*name, "application/octet-stream", format!("content {at}")))
        .collect();
    let record = product.send("save all to /shared/in and send everything", files.clone()).await;
    assert_eq!(record.ending, Some(Ending::Done));
    assert_eq!(record.refused().count(), 0);
    assert_eq!(record.routing_errors(), []);
    let transcript = product.platform.transcript();
    let delivered = transcript.visible_files(&product.conversation);
    for file in &files {
        let found = delivered.iter().find(|delivered| delivered.sha256 == file.sha256());
        let found = found.unwrap_or_else(|| panic!("{:?} came back:\n{transcript}", file.filename));
        let name = &found.filename;
        assert!(!name.chars().any(is_unsafe_char) && !name.contains(['/', '\\', '\r', '\n']), "{name:?}");
        assert!(!name.is_empty() && name.len() <= 255, "{name:?}");
        assert_eq!(&Filename::from_untrusted(name).as_str(), name, "it is as harmless as it gets");
    }
    let name_of = |file: &FakeFile| {
        delivered.iter().find(|delivered| delivered.sha256 == file.sha256()).map(|found| found.filename.clone())
    };
    assert_eq!(name_of(&files[7]).as_deref(), Some("\u{e9}.txt"), "names are composed");
    assert!(name_of(&files[13]).is_some_and(|name| name.ends_with("\u{451}.tar")), "the extension is kept");
    product.stop().await;
}

#[tokio::test]
async fn unfetchable_file_is_reported_to_person_and_model() {
    let mut setup = ProductSetup::for_platform(ChannelAdapter::Telegram);
    setup.rules = PlatformRules::Telegram(TelegramRules { download_bytes: Some(50_000), ..TelegramRules::default() });
    let product = Product::start(setup, Arc::new(OfflineModel::default())).await;
    let noise = |name: &str, bytes| FakeFile::generated(name, "application/octet-stream", 3, bytes);
    let sent = vec![noise("small.bin", 40_000), noise("large.bin", 50_001), noise("empty.bin", 0)];
    let record = product.send("save these", sent).await;
    let refused: Vec<&str> = record.refused().map(|file| file.filename.as_str()).collect();
    assert_eq!(refused, ["large.bin"]);
    let text = product.texts().join("\n");
    assert!(
        text.contains("large.bin") && text.contains("it is 50 KB; bots can download at most 20 MB from Telegram"),
        "{text}"
    );
    assert!(text.contains("small.bin") && text.contains("empty.bin"), "{text}");

    // An empty file is kept, but this platform takes none: the person is told, and nothing else is lost.
    let record = product.send("send everything", Vec::new()).await;
    let text = product.texts().join("\n");
    assert_eq!(record.routing_errors().len(), 1, "{:#?}", record.parts);
    assert!(text.contains("empty.bin") && text.contains("/resend"), "{text}");
    product.stop().await;
}
