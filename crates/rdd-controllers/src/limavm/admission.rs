//! Admission of LimaVMs and their templates: defaulting, validation, and the private copy of the template.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use rdd_driver::{Drivers, template::with_params};
use rdd_runtime::{
    admission::{Admission, Decision, Operation, Request, Webhook, guard},
    has_code,
};
use rdd_stdx::clock::SharedClock;
use rdd_types::{
    lima::{GROUP, LimaVM, TEMPLATE_KEY},
    names::{field_manager, finalizer, label},
};

/// The age from which a copy without an owner counts as abandoned: longer than the server waits for the webhook that created it.
const ABANDONED: Duration = Duration::from_secs(15);

/// The webhooks of the LimaVM controller.
pub(super) fn webhooks(client: &Client, clock: &SharedClock, drivers: &Drivers) -> Vec<Webhook> {
    let defaulter = Defaulter { client: client.clone(), clock: Arc::clone(clock), drivers: drivers.clone() };
    let templates = Templates { drivers: drivers.clone() };
    let selector = LabelSelector {
        match_labels: Some([(label::TEMPLATE_CONFIG_MAP.to_owned(), "true".to_owned())].into()),
        ..LabelSelector::default()
    };
    let operations = [Operation::Create, Operation::Update, Operation::Delete];
    vec![
        Webhook::mutating::<LimaVM>("limavm-defaulter", &[Operation::Create], defaulter).with_side_effects(),
        Webhook::delete_guard::<LimaVM>("limavm-validator"),
        Webhook::validating::<ConfigMap>("limavm-configmap-validator", &operations, move |request: &Request| {
            templates.review(request)
        })
        .named(&format!("limavm-configmap-validator.{GROUP}"))
        .selecting(selector),
    ]
}

/// Prepares a new LimaVM: adds the finalizer, checks that its name is unique, and copies the template.
struct Defaulter {
    client: Client,
    clock: SharedClock,
    drivers: Drivers,
}

impl Admission for Defaulter {
    fn review<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Decision> {
        Box::pin(async move { self.prepare(request).await.unwrap_or_else(|refusal| refusal) })
    }
}

impl Defaulter {
    async fn prepare(&self, request: &Request) -> Result<Decision, Decision> {
        let vm: LimaVM = match request.new_as() {
            Some(Ok(vm)) => vm,
            Some(Err(error)) => return Err(Decision::denied(format!("failed to read the LimaVM: {error}"))),
            None => return Ok(Decision::allowed()),
        };
        let name = vm.metadata.name.as_deref().filter(|name| !name.is_empty());
        let name =
            name.ok_or_else(|| Decision::denied("a LimaVM needs a name of its own: generateName cannot be used"))?;
        if let Err(error) = rdd_driver::check_name(name) {
            return Err(Decision::denied(error.to_string()));
        }
        self.check_unique(name, &request.namespace).await?;
        let text = self.read_template(&vm, &request.namespace).await?;
        if let Some(why) = refuse_params(&self.drivers, &vm, &text) {
            return Err(Decision::denied(why));
        }
        self.copy_template(name, &request.namespace, text, request.dry_run).await?;
        let mut object = request.object.clone().unwrap_or_default();
        if !vm.metadata.finalizers.iter().flatten().any(|known| known == finalizer::CLEANUP) {
            let mut finalizers = vm.metadata.finalizers.clone().unwrap_or_default();
            finalizers.push(finalizer::CLEANUP.to_owned());
            // At admission, so that no LimaVM ever exists without it.
            object["metadata"]["finalizers"] = finalizers.into();
        }
        Ok(Decision::Patched(object))
    }

    /// Denies a name that is used in another namespace: the name is a directory on disk, and all namespaces share the disk.
    async fn check_unique(&self, name: &str, namespace: &str) -> Result<(), Decision> {
        let vms: Api<LimaVM> = Api::all(self.client.clone());
        let same = vms.list_metadata(&ListParams::default().fields(&format!("metadata.name={name}"))).await;
        // A failed list must not let a duplicate name pass.
        let same = same.map_err(|error| Decision::failed(&error))?;
        let elsewhere =
            same.items.iter().filter_map(|vm| vm.metadata.namespace.as_deref()).find(|other| *other != namespace);
        match elsewhere {
            None => Ok(()),
            Some(other) => Err(Decision::denied(format!(
                "LimaVM name {name:?} is already used in namespace {other:?}; LimaVM names must be unique across all namespaces"
            ))),
        }
    }

    async fn read_template(&self, vm: &LimaVM, namespace: &str) -> Result<String, Decision> {
        let reference = &vm.spec.template_ref;
        let namespace = reference.namespace.as_deref().filter(|named| !named.is_empty()).unwrap_or(namespace);
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let map = maps.get(&reference.name).await.map_err(|error| Decision::failed(&error))?;
        // A missing key counts as empty text; the webhook of the copy refuses that.
        Ok(map.data.and_then(|mut data| data.remove(TEMPLATE_KEY)).unwrap_or_default())
    }

    async fn copy_template(&self, vm: &str, namespace: &str, text: String, dry_run: bool) -> Result<(), Decision> {
        let copy = ConfigMap {
            metadata: ObjectMeta {
                name: Some(LimaVM::template_config_map(vm)),
                namespace: Some(namespace.to_owned()),
                labels: Some([(label::TEMPLATE_CONFIG_MAP.to_owned(), "true".to_owned())].into()),
                finalizers: Some(vec![finalizer::OWNED_BY_LIMA_VM.to_owned()]),
                ..ObjectMeta::default()
            },
            data: Some([(TEMPLATE_KEY.to_owned(), text.clone())].into()),
            ..ConfigMap::default()
        };
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let parameters = PostParams { dry_run, field_manager: Some(field_manager::RDD.to_owned()) };
        match maps.create(&parameters, &copy).await {
            Ok(_) => Ok(()),
            Err(error) if has_code(&error, 409) => self.take_over(&maps, &copy, &text, &parameters, error).await,
            Err(error) => Err(Decision::failed(&error)),
        }
    }

    /// Uses an existing copy without an owner, which an interrupted create has left. Users cannot delete it, because it counts as owned.
    async fn take_over(
        &self,
        maps: &Api<ConfigMap>,
        copy: &ConfigMap,
        text: &str,
        parameters: &PostParams,
        taken: kube::Error,
    ) -> Result<(), Decision> {
        let name = copy.metadata.name.as_deref().unwrap_or_default();
        let mut known = maps.get(name).await.map_err(|_| Decision::failed(&taken))?;
        let is_copy = known.metadata.finalizers.iter().flatten().any(|known| known == finalizer::OWNED_BY_LIMA_VM);
        let is_owned = known.metadata.owner_references.iter().flatten().next().is_some();
        if !is_copy || is_owned || known.metadata.deletion_timestamp.is_some() {
            return Err(Decision::failed(&taken));
        }
        // The same text: a concurrent or repeated create of the same LimaVM.
        if known.data.as_ref().and_then(|data| data.get(TEMPLATE_KEY)).is_some_and(|known| known == text) {
            return Ok(());
        }
        if self.age(&known) < ABANDONED {
            return Err(Decision::failed(&taken));
        }
        known.data.clone_from(&copy.data);
        known.metadata.labels.clone_from(&copy.metadata.labels);
        maps.replace(name, parameters, &known).await.map(drop).map_err(|error| Decision::failed(&error))
    }

    fn age(&self, map: &ConfigMap) -> Duration {
        let made = map.metadata.creation_timestamp.as_ref().map_or(0, |made| made.0.as_second());
        self.clock.wall().saturating_sub(Duration::from_secs(u64::try_from(made).unwrap_or_default()))
    }
}

/// The problems of the template with the values of `spec.params`. A template without such values is validated when its copy is created.
fn refuse_params(drivers: &Drivers, vm: &LimaVM, text: &str) -> Option<String> {
    let params = vm.spec.params.as_ref().filter(|params| !params.is_empty())?;
    let problems = drivers.validate(&with_params(text, params)).err()?;
    Some(format!("spec.params do not fit the template: {}", problems.join("; ")))
}

/// Reviews ConfigMaps with the template of a LimaVM.
struct Templates {
    drivers: Drivers,
}

impl Templates {
    fn review(&self, request: &Request) -> Decision {
        if request.operation == Operation::Delete {
            // The finalizer names the owner, also for a copy whose LimaVM is gone.
            return guard::owned(request);
        }
        let new: ConfigMap = match request.new_as() {
            Some(Ok(new)) => new,
            Some(Err(error)) => return Decision::denied(format!("failed to read the ConfigMap: {error}")),
            None => return Decision::allowed(),
        };
        let old: Option<ConfigMap> = request.old_as().and_then(Result::ok);
        match self.refuse(&new, old.as_ref()) {
            Some(why) => Decision::denied(why),
            None => Decision::allowed(),
        }
    }

    fn refuse(&self, new: &ConfigMap, old: Option<&ConfigMap>) -> Option<String> {
        if !is_labelled(new) {
            let is_owned = old.is_some_and(|old| rdd_runtime::finalizer::owner_of(&old.metadata).is_some());
            return is_owned.then(|| format!("cannot remove {} label: resource is owned", label::TEMPLATE_CONFIG_MAP));
        }
        // A change of metadata alone is not validated again, so that finalizers can be removed even if the rules have changed.
        if old.is_some_and(|old| old.data == new.data && is_labelled(old)) {
            return None;
        }
        let Some(text) = text_of(new) else {
            return Some(format!("template ConfigMap must have a {TEMPLATE_KEY:?} data entry"));
        };
        if text.trim().is_empty() {
            return Some(format!("{TEMPLATE_KEY:?} data cannot be empty"));
        }
        if let Err(problems) = rdd_driver::Template::parse(text) {
            return Some(format!("failed to parse template: {}", problems.join("; ")));
        }
        if let Err(problems) = self.drivers.validate(text) {
            return Some(format!("failed to validate template: {}", problems.join("; ")));
        }
        let is_owned = old.is_some_and(|old| old.metadata.owner_references.iter().flatten().next().is_some());
        (is_owned && !self.is_same_driver(text, old.and_then(text_of)?))
            .then(|| "failed to validate template: vmType cannot be changed; create another LimaVM".to_owned())
    }

    /// Whether both templates select the same driver: a VM cannot move to another one.
    fn is_same_driver(&self, new: &str, old: &str) -> bool {
        match (self.drivers.pick(new), self.drivers.pick(old)) {
            (Ok(new), Ok(old)) => Arc::ptr_eq(new, old),
            // The old template may fit no driver any more; validation has checked the new one.
            _ => true,
        }
    }
}

fn is_labelled(map: &ConfigMap) -> bool {
    map.metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(label::TEMPLATE_CONFIG_MAP))
        .is_some_and(|value| value == "true")
}

fn text_of(map: &ConfigMap) -> Option<&str> {
    map.data.as_ref()?.get(TEMPLATE_KEY).map(String::as_str)
}
