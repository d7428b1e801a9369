//! Tests of objects that were stored in another version than the current storage version.

use serde_json::{Value, json};

use crate::support::{World, bounded, definition, definitions, widget, widgets};

fn version(name: &str, served: bool, properties: &Value) -> Value {
    let mut version = definition(properties.clone())["spec"]["versions"][0].clone();
    version["name"] = name.into();
    version["served"] = served.into();
    version["storage"] = (name == "v2").into();
    version
}

async fn redefine(world: &World, versions: [Value; 2]) {
    let patch = json!({"spec": {"versions": versions}});
    bounded(world.client.merge(definitions("widgets.example.dev"), patch)).await.unwrap();
}

#[tokio::test]
async fn what_an_earlier_storage_version_knew_more_is_not_shown_in_the_one_that_took_its_place() {
    let world = World::open().await;
    let text = json!({"type": "string"});
    let before = json!({"colour": text, "size": text, "weight": text});
    world.define(before.clone()).await;
    let spec = json!({"colour": "red", "size": "1", "weight": "2"});
    bounded(world.client.create(widgets(""), widget("old", spec))).await.unwrap();
    let shown = || {
        let shown = world.client.get(widgets("old")).unwrap();
        (shown["apiVersion"].clone(), shown["spec"].clone())
    };
    let after = json!({"colour": text, "size": text});
    redefine(&world, [version("v1", true, &before), version("v2", true, &after)]).await;
    assert_eq!(shown(), (json!("example.dev/v2"), json!({"colour": "red", "size": "1"})));
    let narrower = json!({"colour": text});
    redefine(&world, [version("v1", false, &before), version("v2", true, &narrower)]).await;
    assert_eq!(shown(), (json!("example.dev/v2"), json!({"colour": "red"})));
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    let patched = bounded(world.client.merge(widgets("old"), patch)).await.unwrap();
    assert_eq!(patched["spec"], json!({"colour": "red"}));
    assert_eq!(patched["metadata"]["generation"], 1, "what was dropped on the way was not changed by anyone");
}
