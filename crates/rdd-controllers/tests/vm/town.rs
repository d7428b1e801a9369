//! Fixtures: a fake environment of Kubernetes with releases, kubeconfigs and probes.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::BoxFuture;
use rdd_controllers::kubernetes::{
    Pace, Setup,
    access::Access,
    contexts::Contexts,
    prober::{Answer, Ask, Heartbeats},
    releases::{Release, Releases},
};
use rdd_driver::Drivers;
use rdd_runtime::Trigger;
use rdd_stdx::clock::{SharedClock, SystemClock};

/// The environment, shared by its clones. It outlives the controllers, like files and other clusters do.
#[derive(Debug, Clone)]
pub(crate) struct Town(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    answer: Answer,
    published: Option<Access>,
    writes: u32,
    choices: u32,
    refusal: Option<String>,
    release: Release,
    /// How many answers are still to be missed.
    misses: u32,
    /// The preferred port; 0 means any free one, because tests run concurrently.
    first_port: u16,
    /// Publishes contexts in these files instead of recording them here.
    files: Option<Arc<dyn Contexts>>,
}

impl Default for Town {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            answer: Answer::Ready,
            published: None,
            writes: 0,
            choices: 0,
            refusal: None,
            release: Release::Absent,
            misses: 0,
            first_port: 0,
            files: None,
        })))
    }
}

impl Town {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn setup(&self, drivers: Drivers, clock: SharedClock) -> Setup {
        let (first_port, files) = {
            let state = self.lock();
            (state.first_port, state.files.clone())
        };
        Setup {
            drivers,
            first_port,
            releases: Arc::new(self.clone()),
            contexts: files.unwrap_or_else(|| Arc::new(self.clone())),
            ask: Arc::new(self.clone()),
            clock,
            pace: Pace {
                first: Duration::from_millis(20),
                most: Duration::from_millis(100),
                stable: Duration::from_secs(3600),
            },
        }
    }

    /// Sets the preferred port of controllers that start from now on.
    pub(crate) fn prefers(&self, port: u16) {
        self.lock().first_port = port;
    }

    /// Makes controllers that start from now on publish contexts in these files.
    pub(crate) fn publishes_to(&self, files: Arc<dyn Contexts>) {
        self.lock().files = Some(files);
    }

    /// Sets the outcome of probes from now on.
    pub(crate) fn answers(&self, answer: Answer) {
        self.lock().answer = answer;
    }

    /// Makes the next answers time out.
    pub(crate) fn misses(&self, misses: u32) {
        self.lock().misses = misses;
    }

    /// How many answers are still to be missed.
    pub(crate) fn missed(&self) -> u32 {
        self.lock().misses
    }

    /// Makes writes of kubeconfigs fail from now on, or succeed with `None`.
    pub(crate) fn refuses(&self, why: Option<&str>) {
        self.lock().refusal = why.map(str::to_owned);
    }

    /// Removes the publication, as another program could.
    pub(crate) fn forget(&self) {
        self.lock().published = None;
    }

    pub(crate) fn has(&self, release: Release) {
        self.lock().release = release;
    }

    /// The published port.
    pub(crate) fn published(&self) -> Option<u16> {
        self.lock().published.as_ref().map(|access| access.port)
    }

    /// How often something was published, and how often the current context was chosen.
    pub(crate) fn counts(&self) -> (u32, u32) {
        let state = self.lock();
        (state.writes, state.choices)
    }
}

impl Ask for Town {
    fn ask<'a>(&'a self, _access: &'a Access, _seen: &'a mut Heartbeats) -> BoxFuture<'a, Answer> {
        Box::pin(async {
            let mut state = self.lock();
            if state.misses > 0 {
                state.misses -= 1;
                return Answer::Timeout;
            }
            state.answer.clone()
        })
    }
}

impl Contexts for Town {
    fn is_there(&self) -> bool {
        self.lock().published.is_some()
    }

    fn publish<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async {
            let mut state = self.lock();
            if let Some(why) = &state.refusal {
                return Err(why.clone());
            }
            if state.published.as_ref() != Some(access) {
                state.writes += 1;
                state.published = Some(access.clone());
            }
            Ok(())
        })
    }

    fn remove_cluster_config(&self) -> Result<(), String> {
        Ok(())
    }

    fn withdraw(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let mut state = self.lock();
            state.writes += 1;
            state.published = None;
            Ok(())
        })
    }

    fn choose_current(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            self.lock().choices += 1;
            Ok(())
        })
    }
}

impl Releases for Town {
    fn look(&self, _version: &str) -> Release {
        self.lock().release.clone()
    }

    fn fetch(&self, _version: &str, wake: Trigger) {
        self.lock().release = Release::Ready { program: "/k3s".into(), images: Vec::new() };
        wake.wake();
    }

    fn stop(&self) {}
}

/// A kubeconfig of K3s with a certificate that is valid for this many days.
pub(crate) fn kubeconfig(days: u64) -> String {
    founded(0, days).0
}

/// A kubeconfig of K3s and the foundation of the cluster: certificates that become valid in this many days less an hour, and stay valid
/// for this many days.
pub(crate) fn founded(begin: u64, days: u64) -> (String, String) {
    let mut params = rcgen::CertificateParams::new(vec!["admin".to_owned()]).unwrap();
    let begin = SystemClock::shared().wall() + Duration::from_hours(24 * begin);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + (begin - Duration::from_hours(1));
    params.not_after = epoch + (begin + Duration::from_hours(24 * days));
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let certificate = STANDARD.encode(&pem);
    let key = STANDARD.encode(key.serialize_pem());
    let text = format!(
        "clusters:\n- name: default\n  cluster: {{server: 'https://10.0.0.1:20000', certificate-authority-data: {certificate}}}\n\
         users:\n- name: default\n  user: {{client-certificate-data: {certificate}, client-key-data: {key}}}\n"
    );
    (text, pem)
}
