//! Tools that declare `/vault`: they get its secrets, and nobody else does.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{Filename, OutcomeNotice, Picture, ViewedFile, VoiceRequest, WakeRequest, path::Mount};
use secrecy::ExposeSecret;
use serde_json::json;

use super::*;
use crate::{
    ToolRegistry,
    fakes::{ToolHarness, attachment},
    path_fields::{PathAccess, PathField},
};

const SECRET: &str = "correct horse\nbattery staple";

/// Reads a secret and returns it in every way that there is.
struct LeakyTool;

#[async_trait]
impl Tool for LeakyTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "leaky".to_owned(),
            description: String::new(),
            parameters: json!({}),
            tier: SafetyTier::ReadOnly,
            time_limit: None,
        }
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let vault = context.vault.as_ref().ok_or_else(|| ToolError("there is no vault".to_owned()))?;
        let path: WorkspacePath = arguments["key"].as_str().unwrap_or("/vault/key").parse().expect("a path");
        let secret = vault.read(&path).await.map_err(|error| ToolError(error.to_string()))?;
        let secret = secret.expose_secret();
        if arguments["fails"] == true {
            return Err(ToolError(format!("the server refused {secret}")));
        }
        let mut file = attachment(9, "a.txt", "text/plain", b"");
        file.filename = Filename::from_untrusted("battery staple.txt");
        file.description = secret.to_owned();
        let picture = Picture { filename: file.filename.clone(), stored: file.stored() };
        Ok(ToolOutcome {
            text: Some(format!("{secret} and {}", json!(secret))),
            data: Some(json!({ secret: [{ "line": "battery staple" }, secret, 7] })),
            attachments: vec![file.clone().into()],
            viewed_files: vec![ViewedFile { file: file.clone().into(), picture: Some(picture) }],
            voice: Some(VoiceRequest { text: Some(secret.to_owned()) }),
            selection: Some(vec![file.into()]),
            wakes: vec![WakeRequest { context: json!([secret]), include_event: false }],
            notices: vec![OutcomeNotice { made: None, cancelled: None, text: secret.to_owned() }],
            failed: true,
            unknown: true,
        })
    }
}

const VAULT_KEY: PathFields =
    PathFields::Some(&[PathField { name: "key", access: PathAccess::Read, mounts: &[Mount::Vault] }]);

fn leaky_tool(world: &ToolHarness, fields: PathFields) -> Arc<dyn Tool> {
    let mut registry = world.registry();
    registry.register_with_paths(Arc::new(LeakyTool), fields).unwrap();
    registry.get("leaky").unwrap()
}

#[tokio::test]
async fn secret_is_masked_in_everything_a_call_returns() {
    let world = ToolHarness::new();
    world.put_file("/vault/key", SECRET.as_bytes());
    let tool = leaky_tool(&world, VAULT_KEY);
    let outcome = tool.call(json!({}), &world.context()).await.unwrap();
    let masked = "[secret /vault/key]";
    assert_eq!(outcome.text.as_deref(), Some(&*format!("{masked} and \"{masked}\"")));
    assert_eq!(outcome.data, Some(json!({ masked: [{ "line": masked }, masked, 7] })));
    assert!(outcome.failed && outcome.unknown);
    let everything = format!("{outcome:?}");
    for part in ["correct horse", "battery staple"] {
        assert!(!everything.contains(part), "{part}: {everything}");
    }
    let error = tool.call(json!({"fails": true}), &world.context()).await.unwrap_err();
    assert_eq!(error.0, format!("the server refused {masked}"));
}

#[tokio::test]
async fn only_declared_tools_get_a_vault() {
    let world = ToolHarness::new();
    world.put_file("/vault/key", b"1234");
    let undeclared = leaky_tool(&world, PathFields::None);
    assert_eq!(undeclared.call(json!({}), &world.context()).await.unwrap_err().0, "there is no vault");
    assert_eq!(undeclared.spec().tier, SafetyTier::ReadOnly);
    let declared = leaky_tool(&world, VAULT_KEY);
    assert_eq!((declared.spec().tier, declared.tier(&json!({}))), (SafetyTier::Privileged, SafetyTier::Privileged));
    assert!(declared.call(json!({"key": "/shared/a"}), &world.context()).await.is_err(), "the policy stays");
}

#[test]
fn vault_is_never_written_and_needs_a_workspace() {
    let write = PathFields::Some(&[PathField { name: "key", access: PathAccess::Write, mounts: &[Mount::Vault] }]);
    let refused = |mut registry: ToolRegistry, fields| {
        registry.register_with_paths(Arc::new(LeakyTool), fields).map_err(|error| error.reason)
    };
    let registry = ToolHarness::new().registry();
    assert_eq!(refused(registry, write), Err("it would write to /vault, which is read-only"));
    let registry = ToolRegistry::default();
    assert_eq!(refused(registry, VAULT_KEY), Err("it reads /vault, and there is no workspace"));
}
