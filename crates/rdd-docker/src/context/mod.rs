//! The instance's docker context: described while its engine runs, made the current one only where that surely helps, and gone afterwards.
//!
//! The docker command keeps its settings in a folder of the user's. Of ours there is one description in its store, and at times one value
//! in `config.json`; everything else in there stays as it is, byte for byte. What cannot be understood is left alone, with a line in
//! the log that says why.

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

/// Docker's name for no context at all.
const DEFAULT: &str = "default";

/// Why the context is not as it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder of docker's settings depends on where one stands.
    #[error("docker's settings are in {}, which is not an absolute path", .0.display())]
    RelativeFolder(PathBuf),
    /// The description could not be written or removed.
    #[error("bring docker context {name} into order")]
    Store {
        /// The name of the context.
        name: String,
        /// What went wrong.
        #[source]
        source: file::Error,
    },
    /// What was to be done in the background came to nothing.
    #[error("bring docker context {name} into order: its task did not end: {why}")]
    Task {
        /// The name of the context.
        name: String,
        /// What became of it.
        why: String,
    },
}

/// What became of the user's current context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// It is the instance's already.
    Ours,
    /// It was broken, and is the instance's now.
    Switched,
    /// It is the user's, and stays.
    Kept,
}

/// Whether docker finds a description of the instance's context in its store.
pub fn is_described(cli: &DockerCli) -> bool {
    store::file(&cli.folder, &cli.context).exists()
}

/// The docker context of one instance. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct DockerContext {
    cli: Arc<DockerCli>,
    looking: Arc<Mutex<Looking>>,
}

/// The look at the user's current context, which takes a moment.
#[derive(Default)]
struct Looking {
    /// It has been looked at since the context was described.
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
    /// The context of the instance that this is about. Nothing is looked at yet.
    pub fn new(cli: DockerCli) -> Self {
        Self { cli: Arc::new(cli), looking: Arc::default() }
    }

    /// Whether anything of the context is there: what an orderly end leaves nothing of, and a killed daemon may.
    pub fn is_published(&self) -> bool {
        store::folder(&self.cli.folder, &self.cli.context).exists()
    }

    /// Describes the context, and looks in the background whether the user's current one is broken: the engine is ready before that is known.
    ///
    /// It may be repeated: what is right is not written again, and the current context is looked at once until the next [`remove`](Self::remove),
    /// so that a user who chooses another one later is not overruled.
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

    /// Removes the context; a current one that is ours is cleared first. A look that is under way is over when this returns.
    pub async fn remove(&self) -> Result<(), Error> {
        let mut looking = self.looking.lock().await;
        looking.stop.cancel();
        while let Some(ended) = looking.task.next().await {
            if let Err(failure) = ended.outcome {
                tracing::error!(%failure, "looking at docker's current context failed");
            }
        }
        *looking = Looking::default();
        self.blocking(DockerContext::remove_now).await?
    }

    /// As [`remove`](Self::remove), for a program that only cleans up after a daemon that is gone.
    pub fn remove_now(&self) -> Result<(), Error> {
        if !self.cli.folder.is_absolute() {
            return Ok(());
        }
        if let Err(error) = store::check_owner(&self.cli.folder) {
            // Nothing in there is ours: a context is not described in a folder of another user.
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

    /// Decides about the user's current context, and changes it if that is surely broken.
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

    /// Describes the context, and leaves the current one alone.
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

    /// Files are waited for beside the runtime. What has begun is finished, also if nobody waits for it any more.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> T + Send + 'static) -> Result<T, Error> {
        let context = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&context)).await;
        done.map_err(|error| Error::Task { name: self.cli.context.clone(), why: error.to_string() })
    }
}

#[cfg(test)]
mod tests;
