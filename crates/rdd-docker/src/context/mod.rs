//! The instance's Docker context: published while its engine runs, made current only if the user's current context is certainly
//! broken, and removed afterwards.
//!
//! The docker CLI keeps its configuration in a folder of the user. We own one context in its store and, at times, one value in
//! `config.json`; everything else in that folder stays as it is, byte for byte. A file that cannot be parsed is left alone, and a
//! log line gives the reason.

mod config;
mod json;
mod probe;
mod replace;
mod store;

use std::{fmt, path::PathBuf, sync::Arc};

use rdd_instance::DockerCli;
use rdd_stdx::{chain::Chain, file, task::Group};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use self::{config::Config, probe::Health, store::Named};
pub use self::{config::Doubt, replace::Error as ReplaceError};

/// Docker's name for the context without an entry in the store.
const DEFAULT: &str = "default";

/// Why the context could not be published or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Docker's configuration folder is a relative path.
    #[error("docker's settings are in {}, which is not an absolute path", .0.display())]
    RelativeFolder(PathBuf),
    /// The context could not be written or removed.
    #[error("bring docker context {name} into order")]
    Store {
        /// The name of the context.
        name: String,
        /// The cause.
        #[source]
        source: file::Error,
    },
    /// The background task failed.
    #[error("bring docker context {name} into order: its task did not end: {why}")]
    Task {
        /// The name of the context.
        name: String,
        /// The cause.
        why: String,
    },
}

/// The decision about the user's current context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The current context is already the instance's.
    Ours,
    /// The current context was broken; the instance's is current now.
    Switched,
    /// The user's current context stays.
    Kept,
}

/// Whether Docker's store has the instance's context.
pub fn is_described(cli: &DockerCli) -> bool {
    store::file(&cli.folder, &cli.context).exists()
}

/// The Docker context of one instance. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct DockerContext {
    cli: Arc<DockerCli>,
    looking: Arc<Mutex<Looking>>,
}

/// The background check of the user's current context.
#[derive(Default)]
struct Looking {
    /// Whether the check was started since the context was published.
    done: bool,
    task: Group<()>,
    stop: CancellationToken,
}

impl fmt::Debug for DockerContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DockerContext").field("cli", &self.cli).finish_non_exhaustive()
    }
}

impl DockerContext {
    /// A handle for the context; it reads and writes nothing yet.
    pub fn new(cli: DockerCli) -> Self {
        Self { cli: Arc::new(cli), looking: Arc::default() }
    }

    /// Whether the store has anything of the context. A clean shutdown leaves nothing; a killed daemon may.
    pub fn is_published(&self) -> bool {
        store::folder(&self.cli.folder, &self.cli.context).exists()
    }

    /// Publishes the context and checks the user's current context in the background, so that a slow check does not delay the
    /// engine's readiness.
    ///
    /// Idempotent: it does not rewrite a correct context, and it checks the current context only once until the next
    /// [`remove`](Self::remove), so that it never overrides a context that the user chooses later.
    pub async fn ensure(&self) -> Result<(), Error> {
        let mut looking = self.looking.lock().await;
        self.blocking(DockerContext::publish).await??;
        if !looking.done {
            looking.done = true;
            let (context, stop) = (self.clone(), looking.stop.clone());
            looking.task.spawn("docker context", async move {
                context.choose(&stop).await;
            });
        }
        Ok(())
    }

    /// Removes the context, and first clears the current context if it is ours. Cancels a running check and waits for it.
    pub async fn remove(&self) -> Result<(), Error> {
        let mut looking = self.looking.lock().await;
        looking.stop.cancel();
        // A switch in progress must finish before the current context is cleared.
        while let Some(ended) = looking.task.next().await {
            if let Err(failure) = ended.outcome {
                tracing::error!(%failure, "looking at docker's current context failed");
            }
        }
        *looking = Looking::default();
        self.blocking(DockerContext::remove_now).await?
    }

    /// Like [`remove`](Self::remove), for cleaning up after a daemon that no longer runs.
    pub fn remove_now(&self) -> Result<(), Error> {
        if !self.cli.folder.is_absolute() {
            return Ok(());
        }
        if let Err(error) = store::check_owner(&self.cli.folder) {
            // We never publish a context in another user's folder, so nothing in there is ours.
            tracing::warn!(error = %Chain(&error), context = self.cli.context, "docker's settings are left as they are");
            return Ok(());
        }
        let path = self.config_file();
        match config::switch(&path, &self.cli.context, None) {
            Ok(true) => tracing::info!(context = self.cli.context, "docker's current context is cleared"),
            Ok(false) => {}
            Err(doubt) => {
                tracing::warn!(error = %Chain(&doubt), context = self.cli.context, "docker's settings are left as they are");
            }
        }
        self.store(store::withdraw(&self.cli.folder, &self.cli.context))
    }

    /// Checks the user's current context and switches to ours if it is certainly broken. `stop` cancels the check.
    pub async fn choose(&self, stop: &CancellationToken) -> Choice {
        if let Some(variable) = self.cli.overridden_by {
            tracing::info!(variable, "docker's current context is kept: a variable says where docker goes");
            return Choice::Kept;
        }
        if let Err(error) = store::check_owner(&self.cli.folder) {
            return self.keep(&Chain(&error).to_string());
        }
        let current = match Config::read(&self.config_file()).and_then(|config| config.current()) {
            Ok(current) => current,
            Err(doubt) => return self.keep(&Chain(&doubt).to_string()),
        };
        if current == self.cli.context {
            return Choice::Ours;
        }
        let host = match current.as_str() {
            "" | DEFAULT => self.cli.default_host.clone(),
            named => match store::read(&self.cli.folder, named) {
                Named::Host(host) => host,
                Named::Missing => return self.switch(current, "there is no such context".to_owned()).await,
                Named::Unclear(why) => return self.keep(&why),
            },
        };
        let health = tokio::select! {
            health = probe::probe(&host) => health,
            () = stop.cancelled() => return Choice::Kept,
        };
        match health {
            Health::Well => {
                tracing::debug!(current, host, "docker's current context works and is kept");
                Choice::Kept
            }
            Health::Doubtful(why) => self.keep(&format!("{host}: {why}")),
            Health::Broken(why) => self.switch(current, format!("{host}: {why}")).await,
        }
    }

    fn keep(&self, why: &str) -> Choice {
        tracing::info!(why, "docker's current context is kept: whether it works cannot be told");
        Choice::Kept
    }

    async fn switch(&self, from: String, why: String) -> Choice {
        let was = from.clone();
        let switched = move |context: &Self| config::switch(&context.config_file(), &from, Some(&context.cli.context));
        match self.blocking(switched).await {
            Ok(Ok(true)) => {
                tracing::info!(was, why, context = self.cli.context, "docker's current context is broken: switched");
                Choice::Switched
            }
            Ok(Ok(false)) => self.keep("it was changed while it was looked at"),
            Ok(Err(doubt)) => self.keep(&Chain(&doubt).to_string()),
            Err(error) => self.keep(&Chain(&error).to_string()),
        }
    }

    /// Publishes the context and leaves the current context alone.
    pub fn publish(&self) -> Result<(), Error> {
        if !self.cli.folder.is_absolute() {
            return Err(Error::RelativeFolder(self.cli.folder.clone()));
        }
        self.store(store::publish(&self.cli.folder, &self.cli.context, &self.cli.host))
    }

    fn store(&self, outcome: Result<(), file::Error>) -> Result<(), Error> {
        outcome.map_err(|source| Error::Store { name: self.cli.context.clone(), source })
    }

    fn config_file(&self) -> PathBuf {
        self.cli.folder.join("config.json")
    }

    /// Runs blocking file operations off the runtime. Once started they run to completion, even if the caller is cancelled.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> T + Send + 'static) -> Result<T, Error> {
        let context = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&context)).await;
        done.map_err(|error| Error::Task { name: self.cli.context.clone(), why: error.to_string() })
    }
}

#[cfg(test)]
mod tests;
