//! Objects of our kinds on a real server: what it fills in, what it refuses in which words, and what is read back.

use rdd_testkit::api::{Server, TestApi};
use rdd_types::{
    app::{App, AppSpec, Backend, Demo, EngineName, Kubernetes, VirtualMachine},
    containers::{Container, ContainerNamespace, ContainerSpec, ContainerState, DesiredState, Image},
    crds,
    lima::{LimaVM, LimaVMSpec, TemplateReference},
    rdd::{HostInfo, HostInfoStatus},
};
use serde_json::{Value, json};

const APPS: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps";
const CONTAINERS: &str = "/apis/containers.rancherdesktop.io/v1alpha1/namespaces/default/containers";

fn served() -> TestApi {
    let api = TestApi::start();
    for crd in crds() {
        let crd = serde_json::to_value(crd).expect("a definition is JSON");
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).expect(201);
    }
    api
}

fn mk_app(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "app.rancherdesktop.io/v1alpha1", "kind": "App", "metadata": {"name": name}, "spec": spec})
}

#[test]
fn an_app_that_says_little_is_filled_in_as_our_types_read_it() {
    let api = served();
    let made = api.post(APPS, &mk_app("app", json!({"running": false}))).expect(201);
    let wanted = json!({
        "running": false,
        "namespace": "default",
        "backend": "auto",
        "containerEngine": {"name": "moby"},
        "application": {"updates": {"enabled": true}},
    });
    assert_eq!(made["spec"], wanted);
    let app: App = serde_json::from_value(made).unwrap();
    assert_eq!(app.spec, AppSpec::default());
    assert_eq!(serde_json::to_value(AppSpec::default()).unwrap(), wanted);
}

#[test]
fn only_the_one_name_is_allowed_for_what_there_is_only_one_of() {
    let api = served();
    let refused = api.post(APPS, &mk_app("x", json!({"running": true}))).expect(422);
    let text = refused["message"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains("App resource must be named 'app'"), "{text}");
    let demo = serde_json::to_value(Demo::new("x", Default::default())).unwrap();
    let refused = api.post("/apis/app.rancherdesktop.io/v1alpha1/demos", &demo).expect(422);
    let text = refused["message"].as_str().unwrap_or_default().to_owned();
    assert!(text.contains("Demo resource must be named 'demo'"), "{text}");
}

#[test]
fn what_was_chosen_once_cannot_be_changed() {
    let api = served();
    api.post(APPS, &mk_app("app", json!({"running": false}))).expect(201);
    let path = format!("{APPS}/app");
    let refused = api.merge(&path, &json!({"spec": {"namespace": "other"}})).expect(422);
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("spec.namespace is immutable")), "{refused}");
    // From auto to a choice, once.
    api.merge(&path, &json!({"spec": {"backend": "host"}})).expect(200);
    for other in ["lima", "auto"] {
        let refused = api.merge(&path, &json!({"spec": {"backend": other}})).expect(422);
        assert!(
            refused["message"].as_str().is_some_and(|text| text.contains("spec.backend is immutable")),
            "{refused}"
        );
    }
    let vms = "/apis/lima.rancherdesktop.io/v1alpha1/namespaces/default/limavms";
    let spec = LimaVMSpec {
        template_ref: TemplateReference { name: "t".to_owned(), namespace: None },
        params: None,
        running: false,
    };
    api.post(vms, &serde_json::to_value(LimaVM::new("rd", spec)).unwrap()).expect(201);
    let refused = api.merge(&format!("{vms}/rd"), &json!({"spec": {"templateRef": {"name": "u"}}})).expect(422);
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("templateRef is immutable")), "{refused}");
}

#[test]
fn words_that_are_not_on_the_list_are_refused_by_field() {
    let api = served();
    let refused =
        api.post(APPS, &mk_app("app", json!({"running": false, "containerEngine": {"name": "x"}}))).expect(422);
    let cause = &refused["details"]["causes"][0];
    assert_eq!(
        (&cause["reason"], &cause["field"]),
        (&json!("FieldValueNotSupported"), &json!("spec.containerEngine.name"))
    );
    let refused =
        api.post(APPS, &mk_app("app", json!({"running": false, "virtualMachine": {"memory": "4GB!"}}))).expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.virtualMachine.memory");
}

#[test]
fn settings_are_read_back_as_they_were_written() {
    let api = served();
    let spec = AppSpec {
        running: true,
        backend: Backend::Host,
        container_engine: rdd_types::app::ContainerEngine { name: EngineName::Containerd },
        kubernetes: Some(Kubernetes { enabled: false, version: Some("1.34.6".to_owned()) }),
        virtual_machine: Some(VirtualMachine { cpus: 2, memory: Some("4Gi".parse().unwrap()) }),
        ..AppSpec::default()
    };
    let made = api.post(APPS, &serde_json::to_value(App::new("app", spec.clone())).unwrap()).expect(201);
    assert_eq!(serde_json::from_value::<App>(made).unwrap().spec, spec);
    // A number is a quantity too.
    let path = format!("{APPS}/app");
    let kept = api.merge(&path, &json!({"spec": {"virtualMachine": {"memory": 4_294_967_296_u64}}})).expect(200);
    let app: App = serde_json::from_value(kept).unwrap();
    let memory = app.spec.virtual_machine.and_then(|machine| machine.memory).unwrap();
    assert_eq!(memory.bytes(), Ok(4 << 30));
}

/// One odd object must not keep a controller from reading the others.
#[test]
fn an_object_that_lacks_what_it_should_have_is_read_all_the_same() {
    let app: App = serde_json::from_value(json!({"metadata": {"name": "app"}})).unwrap();
    assert_eq!(app.spec, AppSpec::default());
    let vm: LimaVM = serde_json::from_value(json!({"metadata": {}, "status": {"conditions": []}})).unwrap();
    assert_eq!((vm.spec, vm.status.is_some()), (LimaVMSpec::default(), true));
    let state = json!({"metadata": {"name": "c"}, "status": {"status": "levitating", "name": "c"}});
    let container: Container = serde_json::from_value(state).unwrap();
    assert_eq!(container.status.unwrap_or_default().status, ContainerState::Unknown);
}

#[test]
fn a_mirror_says_nothing_of_what_its_user_may_want() {
    let mut container = Container::new("c", ContainerSpec::default());
    assert_eq!(serde_json::to_value(&container).unwrap()["spec"], Value::Null);
    container.spec.state = DesiredState::Running;
    assert_eq!(serde_json::to_value(&container).unwrap()["spec"], json!({"state": "running"}));
    let api = served();
    let made =
        api.post(CONTAINERS, &serde_json::to_value(Container::new("c", ContainerSpec::default())).unwrap()).expect(201);
    assert_eq!(made.get("spec"), None);
    let image = serde_json::to_value(Image::new("i")).unwrap();
    assert_eq!(
        image,
        json!({"apiVersion": "containers.rancherdesktop.io/v1alpha1", "kind": "Image", "metadata": {"name": "i"}})
    );
    assert_eq!(serde_json::to_value(ContainerNamespace::new("moby")).unwrap()["kind"], "ContainerNamespace");
}

fn row(api: &TestApi, path: &str) -> Vec<Value> {
    use rdd_testkit::api::Ask;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = api.ask(&Ask::new("GET", path).header("Accept", table)).expect(200);
    table["rows"][0]["cells"].as_array().cloned().unwrap_or_default()
}

/// The original's column is a boolean over a text, and empty on every row.
#[test]
fn the_columns_of_containers_and_hosts_show_something() {
    let api = served();
    api.post(CONTAINERS, &serde_json::to_value(Container::new("c", ContainerSpec::default())).unwrap()).expect(201);
    let condition = json!({
        "type": "Running", "status": "True", "reason": "Running", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({"status": {
        "name": "n", "namespace": "moby", "path": "sh", "image": "sha256:0", "status": "running", "conditions": [condition],
    }});
    api.merge(&format!("{CONTAINERS}/c/status"), &status).expect(200);
    assert_eq!(row(&api, CONTAINERS), [json!("c"), json!("True")]);

    let hosts = "/apis/rdd.rancherdesktop.io/v1alpha1/hostinfos";
    api.post(hosts, &serde_json::to_value(HostInfo::new("system", Default::default())).unwrap()).expect(201);
    let status = HostInfoStatus { cpus: 8, memory: Some(rdd_types::Quantity::binary(16 << 30)) };
    api.merge(&format!("{hosts}/system/status"), &json!({"status": status})).expect(200);
    assert_eq!(row(&api, hosts), [json!("system"), json!(8), json!("16Gi")]);
}
