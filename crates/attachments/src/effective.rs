//! The attachments that a task's model gets: those of its agent, the task and its action, merged in this order.
//!
//! What needs the output of a task stays in its place as it was declared until [`EffectiveList::complete`], which
//! renders it with that output.

use std::collections::HashMap;

use satchel_ports::DeclaredFiles;

use crate::{
    declaration::Declaration,
    expand::{Expanded, ExpansionInput, UnmatchedGlob, expand},
    item::{Item, ResourceKey, Scope},
    problem::DeclarationProblem,
    render::render,
    template::TemplateContext,
};

/// One entry of the list.
#[derive(Debug, Clone)]
pub enum EffectiveEntry {
    Item(Box<Item>),
    /// It waits for the output of a task.
    Deferred(Box<DeferredDeclaration>),
    /// An optional glob that matches nothing.
    Unmatched(UnmatchedGlob),
}

/// A declaration that can't be rendered yet.
#[derive(Debug, Clone)]
pub struct DeferredDeclaration {
    pub scope: Scope,
    pub declaration: Declaration,
}

/// The entries in their order: agent, task, action.
#[derive(Debug, Clone, Default)]
pub struct EffectiveList {
    /// All of them while some are deferred, since a later phase may put one between two that are the same resource.
    unmerged: Vec<EffectiveEntry>,
    merged: Vec<EffectiveEntry>,
}

impl EffectiveList {
    /// Renders, expands and merges the declarations of a task's scopes.
    ///
    /// # Errors
    /// With every declaration that can't be rendered or expanded.
    pub async fn load(
        scopes: &[(Scope, &[Declaration])],
        context: &TemplateContext,
        files: &dyn DeclaredFiles,
    ) -> Result<Self, Vec<DeclarationProblem>> {
        let declared = scopes.iter().flat_map(|(scope, declarations)| {
            declarations.iter().map(|declaration| {
                EffectiveEntry::Deferred(Box::new(DeferredDeclaration {
                    scope: *scope,
                    declaration: declaration.clone(),
                }))
            })
        });
        settle(declared.collect(), context, files).await
    }

    /// Renders what was deferred, in its place. What was rendered before stays as it is.
    ///
    /// # Errors
    /// With every declaration that can't be rendered or expanded.
    pub async fn complete(
        self,
        context: &TemplateContext,
        files: &dyn DeclaredFiles,
    ) -> Result<Self, Vec<DeclarationProblem>> {
        if self.unmerged.is_empty() {
            return Ok(self);
        }
        settle(self.unmerged, context, files).await
    }

    #[must_use]
    pub fn entries(&self) -> &[EffectiveEntry] {
        &self.merged
    }
}

/// Replaces each deferred declaration that can be rendered by what it expands to, and merges.
async fn settle(
    entries: Vec<EffectiveEntry>,
    context: &TemplateContext,
    files: &dyn DeclaredFiles,
) -> Result<EffectiveList, Vec<DeclarationProblem>> {
    let mut problems = Vec::new();
    let mut inputs = Vec::new();
    let mut is_rendered = vec![false; entries.len()];
    for (entry, is_rendered) in entries.iter().zip(&mut is_rendered) {
        let EffectiveEntry::Deferred(deferred) = entry else { continue };
        match render(&deferred.declaration, context) {
            Ok(Some(rendered)) => {
                *is_rendered = true;
                inputs.push(ExpansionInput { declaration: &deferred.declaration, scope: deferred.scope, rendered });
            }
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
    }
    let expanded = match expand(inputs, files).await {
        Ok(expanded) if problems.is_empty() => expanded,
        Ok(_) => return Err(problems),
        Err(more) => {
            problems.extend(more);
            return Err(problems);
        }
    };
    let mut expanded = expanded.into_iter();
    let mut settled = Vec::new();
    for (entry, is_rendered) in entries.into_iter().zip(is_rendered) {
        match is_rendered {
            true => settled.extend(expanded.next().into_iter().flatten().map(EffectiveEntry::from)),
            false => settled.push(entry),
        }
    }
    let has_deferred = settled.iter().any(|entry| matches!(entry, EffectiveEntry::Deferred(_)));
    let unmerged = if has_deferred { settled.clone() } else { Vec::new() };
    Ok(EffectiveList { merged: merge(settled), unmerged })
}

impl From<Expanded> for EffectiveEntry {
    fn from(expanded: Expanded) -> Self {
        match expanded {
            Expanded::Item(item) => Self::Item(item),
            Expanded::Unmatched(unmatched) => Self::Unmatched(unmatched),
        }
    }
}

/// Leaves one item of each resource: in the place of the first, with the name and metadata of the last that has them.
fn merge(entries: Vec<EffectiveEntry>) -> Vec<EffectiveEntry> {
    let mut places: HashMap<ResourceKey, usize> = HashMap::with_capacity(entries.len());
    let mut merged: Vec<EffectiveEntry> = Vec::with_capacity(entries.len());
    for entry in entries {
        let EffectiveEntry::Item(item) = entry else {
            merged.push(entry);
            continue;
        };
        let key = item.key();
        match places.get(&key).and_then(|place| merged.get_mut(*place)) {
            Some(EffectiveEntry::Item(first)) => overwrite(first, *item),
            _ => {
                places.insert(key, merged.len());
                merged.push(EffectiveEntry::Item(item));
            }
        }
    }
    merged
}

fn overwrite(first: &mut Item, later: Item) {
    let Item { name, mime, meta, optional, bounds, .. } = later;
    first.name = name.or(first.name.take());
    first.mime = mime.or(first.mime.take());
    if !meta.is_empty() {
        first.meta = meta;
    }
    first.bounds.overwrite(bounds);
    // Whoever needs it gets it or an error.
    first.optional &= optional;
}

#[cfg(test)]
mod tests;
