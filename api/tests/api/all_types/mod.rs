//! Checks that the type table matches its sources: k8s-openapi for names, types and list types, k8s-pb for protobuf
//! numbers, and `facts` for the rest. `UPDATE=1 cargo test -p api --test api all_types` regenerates the table.

mod facts;
mod openapi;
mod protobuf;
mod sources;
mod table;

#[test]
fn the_table_agrees_with_its_sources() {
    let sources = sources::find();
    let types = openapi::read(&sources.k8s_openapi);
    let messages = protobuf::read(&sources.k8s_pb);
    let table = table::write(&types, &messages);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/schema/all.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        table == checked_in,
        "src/schema/all.txt is stale: UPDATE=1 cargo test -p api --test api all_types"
    );
}
