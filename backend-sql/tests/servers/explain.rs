//! How servers carry the statements out: one row by its primary key, however many there are.

use crate::support::{Kind, Tables, tests};

tests! {
    each_statement_finds_its_rows_by_the_key on BOTH,
}

/// A list of one lock.
const LIST: &str = r#"'[{"k":"6b","o":"6b","n":1}]'"#;

async fn each_statement_finds_its_rows_by_the_key(tables: Tables) {
    drop(tables.backend().await);
    let mut raw = tables.raw().await;
    let (fill, analyze) = match tables.kind {
        Kind::Postgres => (
            "INSERT INTO {t} (lock_key, token) SELECT decode(md5(n::text), 'hex'), n FROM generate_series(1, 20000) n",
            "ANALYZE {t}",
        ),
        Kind::MySql => (
            "INSERT INTO {t} (lock_key, token) SELECT UNHEX(MD5(seq)), seq FROM seq_1_to_20000",
            "ANALYZE TABLE {t}",
        ),
    };
    raw.execute(fill).await;
    raw.execute(analyze).await;
    for (name, text) in tables.statements() {
        let text = filled(&tables, &text);
        match tables.kind {
            Kind::Postgres => {
                let plan = raw.texts(&format!("EXPLAIN {text}"), &["QUERY PLAN"]).await.concat().join("\n");
                assert!(!plan.contains("Seq Scan"), "{name}:\n{plan}");
                let by_key = format!("{}_pkey", tables.name);
                assert!(plan.contains(&by_key) || plan.contains("Conflict Arbiter"), "{name}:\n{plan}");
            }
            Kind::MySql => {
                for row in raw.texts(&format!("EXPLAIN {text}"), &["table", "type", "key", "Extra"]).await {
                    // A list of values, or what an inner query gives, is no table.
                    let is_ours = !row[0].is_empty() && row[0] != "r" && !row[0].starts_with('<');
                    let by_key =
                        ["const", "eq_ref", "range"].contains(&row[1].as_str()) && row[2] == "PRIMARY";
                    // An insert finds its row by the key without a plan; a key that is not there needs none.
                    let needs_none = name.starts_with("acquire") || row[3].contains("no matching row");
                    assert!(!is_ours || by_key || needs_none, "{name}: {row:?}");
                }
            }
        }
    }
}

/// The statement with values, each a text from which the server reads what it needs.
fn filled(tables: &Tables, text: &str) -> String {
    let mut text =
        text.replace("CAST($1 AS json)", LIST).replace("JSON_TABLE(?", &format!("JSON_TABLE({LIST}"));
    // Bounds of a range that holds few of the rows.
    text = text.replace("lock_key > ? AND lock_key <= ?", "lock_key > '1' AND lock_key <= '2'");
    text = text.replace(
        "lock_key >= ? AND lock_key > ? AND lock_key < ?",
        "lock_key >= '1' AND lock_key > '1' AND lock_key < '2'",
    );
    text = text.replace("LIMIT ?", "LIMIT 10");
    if tables.kind == Kind::MySql {
        return text.replace('?', "'1'");
    }
    text = text.replace("lock_key > $1 AND lock_key <= $2", "lock_key > '1' AND lock_key <= '2'");
    text = text.replace("lock_key < $3", "lock_key < '2'");
    for number in (1..=9).rev() {
        text = text.replace(&format!("${number}"), "'1'");
    }
    text
}
