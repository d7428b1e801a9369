//! The contract of volumes.

use serde_json::json;

use super::Room;

pub async fn a_volume_is_made_once_and_goes_unless_it_is_in_use(room: &Room) {
    let now = room.now().await;
    let body = json!({"Name": "kept", "Labels": {"a": "b"}});
    let made = room.ask.post_json("/volumes/create", &body).await.expect(201).json;
    assert_eq!((&made["Name"], &made["Driver"], &made["Scope"]), (&json!("kept"), &json!("local"), &json!("local")));
    assert_eq!((&made["Labels"], &made["Options"]), (&json!({"a": "b"}), &json!(null)));
    assert!(made["Mountpoint"].as_str().unwrap().ends_with("/kept/_data"), "{made}");
    made["CreatedAt"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let again = room.ask.post_json("/volumes/create", &json!({"Name": "kept"})).await.expect(201).json;
    assert_eq!(again, made);
    assert_eq!(room.ask.get("/volumes/kept").await.expect(200).json, made);
    let list = room.ask.get("/volumes").await.expect(200).json["Volumes"].clone();
    assert!(list.as_array().unwrap().contains(&made), "{list}");
    let nameless = room.ask.post_json("/volumes/create", &json!({})).await.expect(201).json;
    let nameless = nameless["Name"].as_str().unwrap();
    assert_eq!(nameless.len(), 64);
    room.ask.post_json("/volumes/create", &json!({"Name": "a/b"})).await.expect(400);

    room.import("volumes:1").await;
    let more = json!({"HostConfig": {"Binds": ["kept:/x", "made:/y"]}});
    let user = room.create_with("volumes", "volumes:1", &["sleep", "600"], more).await;
    for force in ["", "?force=1"] {
        let refused = room.ask.delete(&format!("/volumes/kept{force}")).await.expect(409);
        assert_eq!(refused.message(), format!("remove kept: volume is in use - [{user}]"));
    }
    room.clear(&[&user], &["volumes:1"]).await;
    for volume in ["kept", "made", nameless] {
        room.ask.delete(&format!("/volumes/{volume}")).await.expect(204);
    }
    let mut events = room.events(&now, &["volume"]).await;
    // Creating or using an existing volume emits a create event too.
    for expected in ["create", "create", "create", "destroy"] {
        assert_eq!(events.action_of("kept").await.unwrap(), expected);
    }
}
