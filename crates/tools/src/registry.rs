//! Which tools there are, by name: the only way to a tool, and always through the path policy.

use std::{collections::BTreeMap, sync::Arc};

use satchel_ports::{MAX_DESCRIPTION_CHARS, Tool, ToolSpec};

use crate::{
    AuditedWorkspace, ToolServices,
    attachment_add::AttachmentAdd,
    attachment_download::AttachmentDownload,
    attachment_get::AttachmentGet,
    attachment_list::AttachmentList,
    attachment_read::AttachmentRead,
    attachment_save::AttachmentSave,
    attachment_save_all::AttachmentSaveAll,
    attachment_view::AttachmentView,
    file_delete::FileDelete,
    file_edit::FileEdit,
    file_list::FileList,
    file_read::FileRead,
    file_search::FileSearch,
    file_write::FileWrite,
    large_result,
    path_fields::{self, PathFields},
    policy,
    response_attachments::ResponseAttachments,
};

/// Why a tool was not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tool `{tool}` can't be registered: {reason}")]
pub struct RegisterError {
    pub tool: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// The tools, by name.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    /// Holds the secrets of the tools that declare `/vault`.
    workspace: Option<AuditedWorkspace>,
}

impl ToolRegistry {
    /// Adds a tool, behind the path policy.
    ///
    /// # Errors
    /// When a tool of that name, as providers see it, is registered already, when its description is longer than
    /// [`MAX_DESCRIPTION_CHARS`], or when the table of [`crate::path_fields`] has no entry for it.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegisterError> {
        let name = tool.spec().name;
        let Some(fields) = path_fields::path_fields(&name) else {
            return Err(RegisterError { tool: name, reason: "it has no entry in the table of path fields" });
        };
        self.register_with_paths(tool, fields)
    }

    /// Adds a tool that the table does not know, such as one of an embedding program, behind the same path policy.
    ///
    /// # Errors
    /// When a tool of that name, as providers see it, is registered already, or when its description is longer than
    /// [`MAX_DESCRIPTION_CHARS`]: half a description is none, so that it isn't cut here. When it would write to `/vault`,
    /// or read it from a registry that isn't [`built_in`].
    pub fn register_with_paths(&mut self, tool: Arc<dyn Tool>, fields: PathFields) -> Result<(), RegisterError> {
        let ToolSpec { name, description, .. } = tool.spec();
        if description.chars().count() > MAX_DESCRIPTION_CHARS {
            return Err(RegisterError { tool: name, reason: "its description is longer than 1024 characters" });
        }
        if self.get(&provider_name(&name)).is_some() {
            return Err(RegisterError { tool: name, reason: "there is a tool of that name already" });
        }
        if fields.writes_secrets() {
            return Err(RegisterError { tool: name, reason: "it would write to /vault, which is read-only" });
        }
        let secrets = self.workspace.clone().filter(|_| fields.reads_secrets());
        if fields.reads_secrets() && secrets.is_none() {
            return Err(RegisterError { tool: name, reason: "it reads /vault, and there is no workspace" });
        }
        self.tools.insert(name, policy::guard(tool, fields, secrets));
        Ok(())
    }

    /// The tool of that name, in Satchel's spelling (`attachment.add`) or in that of providers which refuse dots
    /// (`attachment_add`).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let by_provider_name = || self.tools.iter().find(|(registered, _)| provider_name(registered) == name);
        self.tools.get(name).or_else(|| by_provider_name().map(|(_, tool)| tool)).cloned()
    }

    /// What the model is told of the tools, sorted by name.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|tool| tool.spec()).collect()
    }

    /// The tools as the model calls them, sorted by name: an answer that is too large comes as a preview
    /// ([`crate::truncate_outcome`]).
    #[must_use]
    pub fn for_model(&self, services: &ToolServices) -> Vec<Arc<dyn Tool>> {
        self.tools.values().map(|tool| large_result::with_preview(tool.clone(), services.clone())).collect()
    }
}

/// A tool's name as providers see it that refuse dots.
#[must_use]
pub fn provider_name(name: &str) -> String {
    name.replace('.', "_")
}

/// Builds the registry of the tools that Satchel brings along.
#[must_use]
pub fn built_in(services: ToolServices) -> ToolRegistry {
    let workspace = services.workspace.clone();
    let tools: [Arc<dyn Tool>; 15] = [
        Arc::new(AttachmentSave(services.clone())),
        Arc::new(AttachmentSaveAll(services.clone())),
        Arc::new(AttachmentAdd::new(services.clone())),
        Arc::new(AttachmentDownload(services.clone())),
        Arc::new(AttachmentList(services.clone())),
        Arc::new(AttachmentGet(services.clone())),
        Arc::new(AttachmentRead(services.clone())),
        Arc::new(AttachmentView(services.clone())),
        Arc::new(ResponseAttachments(services.clone())),
        Arc::new(FileRead(services.clone())),
        Arc::new(FileWrite(services.clone())),
        Arc::new(FileEdit::new(services.clone())),
        Arc::new(FileDelete(services.clone())),
        Arc::new(FileList(services.clone())),
        Arc::new(FileSearch(services)),
    ];
    let mut registry = ToolRegistry { workspace: Some(workspace), ..ToolRegistry::default() };
    for tool in tools {
        registry.register(tool).expect("the built-in tools have names and path entries of their own");
    }
    registry
}

#[cfg(test)]
mod tests {
    use satchel_domain::path::Mount;
    use satchel_ports::{MockTool, SafetyTier};
    use serde_json::json;

    use super::*;
    use crate::{
        fakes::ToolHarness,
        path_fields::{PathAccess, PathField},
    };

    fn named(name: &'static str) -> Arc<dyn Tool> {
        with_description(name, String::new())
    }

    fn with_description(name: &'static str, description: String) -> Arc<dyn Tool> {
        let mut tool = MockTool::new();
        tool.expect_spec().returning(move || ToolSpec {
            name: name.to_owned(),
            description: description.clone(),
            parameters: json!({}),
            tier: SafetyTier::ReadOnly,
            time_limit: None,
        });
        Arc::new(tool)
    }

    #[test]
    fn tool_without_path_entry_is_refused_by_name() {
        let refused = ToolRegistry::default().register(named("brand_new")).map_err(|error| error.to_string());
        assert_eq!(
            refused,
            Err("tool `brand_new` can't be registered: it has no entry in the table of path fields".to_owned())
        );
    }

    #[tokio::test]
    async fn external_tool_brings_path_fields_and_is_guarded() {
        let mut registry = ToolRegistry::default();
        let fields = PathFields::Some(&[PathField { name: "path", access: PathAccess::Read, mounts: &[Mount::Tmp] }]);
        assert_eq!(registry.register_with_paths(named("mine"), fields), Ok(()));
        let tool = registry.get("mine").unwrap();
        // The mock expects no call: a path outside the declared mounts never reaches the tool.
        let refused = tool.call(json!({"path": "/shared/a"}), &ToolHarness::new().context()).await;
        assert!(refused.is_err_and(|error| error.0.contains("beneath /tmp")));
        assert!(registry.register_with_paths(named("mine"), fields).is_err());
    }

    #[test]
    fn tool_with_long_description_is_refused() {
        let mut registry = ToolRegistry::default();
        let longest = "й".repeat(MAX_DESCRIPTION_CHARS);
        assert_eq!(
            registry.register_with_paths(with_description("longest", longest.clone()), PathFields::None),
            Ok(())
        );
        let refused = registry.register_with_paths(with_description("longer", longest + "."), PathFields::None);
        let refused = refused.map_err(|error| error.to_string());
        assert_eq!(
            refused,
            Err("tool `longer` can't be registered: its description is longer than 1024 characters".to_owned())
        );
        assert!(registry.get("longer").is_none());
    }

    #[test]
    fn a_second_tool_of_a_name_is_refused() {
        let mut registry = ToolRegistry::default();
        assert_eq!(registry.register(named("file_read")), Ok(()));
        let refused = registry.register(named("file_read")).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|error| error.contains("`file_read`") && error.contains("already")));
    }

    #[test]
    fn a_tool_is_found_by_both_spellings() {
        let registry = built_in(ToolHarness::new().services());
        for name in ["attachment.add", "attachment_add"] {
            assert_eq!(registry.get(name).map(|tool| tool.spec().name).as_deref(), Some("attachment.add"));
        }
        assert_eq!(registry.get("attachment_save").map(|tool| tool.spec().name).as_deref(), Some("attachment_save"));
        assert!(registry.get("attachment").is_none() && registry.get("attachment.save").is_none());
    }

    #[test]
    fn path_table_has_all_paths_and_only_arguments() {
        let registry = built_in(ToolHarness::new().services());
        for spec in registry.specs() {
            let properties = spec.parameters["properties"].as_object().cloned().unwrap_or_default();
            let entry = path_fields::path_fields(&spec.name).expect("registered tools have an entry");
            let listed: Vec<&str> = match entry {
                PathFields::None => vec![],
                PathFields::Some(fields) => fields.iter().map(|field| field.name).collect(),
            };
            let path_like = |name: &str| ["path", "dir"].iter().any(|word| name.to_lowercase().contains(word));
            for name in properties.keys().filter(|name| path_like(name)) {
                assert!(listed.contains(&name.as_str()), "{}: `{name}` is not in the table", spec.name);
            }
            for name in listed {
                assert!(properties.contains_key(name), "{}: the table names `{name}`", spec.name);
            }
        }
    }

    #[tokio::test]
    async fn model_gets_same_tools_with_large_result_previews() {
        let mut world = ToolHarness::new();
        world.limits.preview_over_bytes = 10;
        world.put_file("/shared/a.txt", b"more than ten bytes");
        let tools = world.registry().for_model(&world.services());
        let names: Vec<String> = tools.iter().map(|tool| tool.spec().name).collect();
        let specs: Vec<String> = world.registry().specs().into_iter().map(|spec| spec.name).collect();
        assert_eq!((names.len(), names.is_sorted(), names == specs), (15, true, true));
        let read = tools.into_iter().find(|tool| tool.spec().name == "file_read").expect("file_read");
        let short = read.call(json!({"path": "/shared/a.txt"}), &world.context()).await.unwrap();
        assert_eq!(short.attachments.len(), 1);
        assert!(read.call(json!({"path": "/vault/key"}), &world.context()).await.is_err(), "the policy stays");
    }

    #[test]
    fn tool_specs_match_snapshot() {
        insta::assert_json_snapshot!("specs", built_in(ToolHarness::new().services()).specs());
    }
}
