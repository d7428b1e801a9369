//! The API for those who live in the server's own process: the same verbs, without HTTP.

use std::{sync::Arc, time::Duration};

use rdd_meta::{
    Status,
    options::{DeleteOptions, WriteOptions},
};
use serde_json::Value;
use tokio::time::Instant;

use super::{Api, Content, Context, PatchType, Target, create, delete, error, patch, update};
use crate::{admission::Warnings, auth::Identity, offload::offload, registry::form, state};

/// How long one call may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A caller in the server's own process, with full rights and a name of its own.
#[derive(Debug, Clone)]
pub struct Local {
    api: Arc<Api>,
    user: Arc<Identity>,
    manager: String,
}

/// Which resource, and which object of it, in the version that is stored.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The group; empty for the core API.
    pub group: &'a str,
    /// The plural.
    pub resource: &'a str,
    /// None for what is in no namespace.
    pub namespace: Option<&'a str>,
    /// The name; empty for a create.
    pub name: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
}

impl Local {
    /// A caller whose fields are owned by `manager`.
    pub fn new(api: Arc<Api>, manager: &str) -> Self {
        let user = Identity::new("system:apiserver", [crate::auth::MASTERS.to_owned()]);
        Self { api, user: Arc::new(user), manager: manager.to_owned() }
    }

    /// What it calls.
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// Reads an object.
    pub fn get(&self, named: Named<'_>) -> Result<Value, Status> {
        let target = self.target(named)?;
        let object = target.object(&self.api.state)?;
        Ok(form::value(&target.def, target.version(), &object)?)
    }

    /// Reads all objects of a resource, or of one namespace of it. They are as stored.
    pub async fn list(&self, named: Named<'_>) -> Result<state::Page, Status> {
        let target = self.target(named)?;
        let page = self.api.state.list(&target.scope()?, state::ListOptions::default()).await;
        page.map_err(|error| error::of_state(&error))
    }

    /// Creates an object, and returns it as stored.
    pub async fn create(&self, named: Named<'_>, object: Value) -> Result<Value, Status> {
        let target = self.target(named)?;
        let context = self.context();
        let written = offload(create(&self.api, &target, &context, object.into())).await?;
        value(&target, written.content)
    }

    /// Replaces an object, or the part of it that the subresource names.
    pub async fn update(&self, named: Named<'_>, object: Value) -> Result<Value, Status> {
        let target = self.target(named)?;
        let context = self.context();
        let written = offload(update(&self.api, &target, &context, object.into())).await?;
        value(&target, written.content)
    }

    /// Merges a patch into an object.
    pub async fn merge(&self, named: Named<'_>, body: Value) -> Result<Value, Status> {
        let target = self.target(named)?;
        let context = self.context();
        let written = offload(patch(&self.api, &target, &context, PatchType::Merge, body.into())).await?;
        value(&target, written.content)
    }

    /// Deletes an object, or marks it; and whether it is gone.
    pub async fn delete(&self, named: Named<'_>, options: &DeleteOptions) -> Result<bool, Status> {
        let target = self.target(named)?;
        Ok(offload(delete(&self.api, &target, &self.context(), options)).await?.gone)
    }

    /// The same for a resource that need not be served. One that is gone already is no error.
    pub async fn delete_target(&self, target: &Target, options: &DeleteOptions) -> Result<(), Status> {
        match offload(delete(&self.api, target, &self.context(), options)).await {
            Err(status) if error::is_not_found(&status) => Ok(()),
            other => other.map(drop),
        }
    }

    fn target(&self, named: Named<'_>) -> Result<Target, Status> {
        let served = self.api.registry.served();
        let def = served.get(named.group, named.resource).ok_or_else(Status::not_found_path)?;
        let stored = def.versions.iter().position(|version| version.name == def.storage_version);
        let version = stored.unwrap_or(0);
        let parts =
            def.versions.get(version).map(|version| &version.subresources).ok_or_else(Status::not_found_path)?;
        let subresource = match named.subresource {
            "" => None,
            name => Some(parts.iter().position(|part| part.name == name).ok_or_else(Status::not_found_path)?),
        };
        Ok(Target {
            def: Arc::clone(def),
            version,
            namespace: named.namespace.map(str::to_owned),
            name: Some(named.name.to_owned()).filter(|name| !name.is_empty()),
            subresource,
        })
    }

    fn context(&self) -> Context {
        Context {
            user: Arc::clone(&self.user),
            manager: self.manager.clone(),
            options: WriteOptions { field_validation: "Ignore".to_owned(), ..WriteOptions::default() },
            deadline: Instant::now() + PATIENCE,
            warnings: Warnings::default(),
        }
    }
}

fn value(target: &Target, content: Content) -> Result<Value, Status> {
    match content {
        Content::Stored(object) => Ok(form::value(&target.def, target.version(), &object)?),
        Content::Shown(value) => Ok(value),
        Content::Status(status) => serde_json::to_value(&*status).map_err(|error| Status::internal(error.to_string())),
    }
}
