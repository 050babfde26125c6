//! The tables: made on first use, missing, of another version, and named otherwise.

use distlock_core::{Effect, ErrorKind, LockBackend, TryLock};

use crate::support::{Kind, S, Tables, request, take, tests};

tests! {
    twenty_begin_at_once on BOTH,
    other_versions_are_refused on BOTH,
    tables_that_were_half_made_are_completed on BOTH,
    tables_that_go_are_made_anew on BOTH,
    one_may_not_create_and_the_other_does on BOTH,
    a_user_without_rights_is_told on BOTH,
    names_are_the_table_s_and_the_schema_s on POSTGRES,
    a_missing_database_or_schema_is_told on BOTH,
}

async fn twenty_begin_at_once(tables: Tables) {
    let starts = (0..20).map(|_| tables.backend());
    let backends = futures_util::future::join_all(starts).await;
    let lease = take(&backends[0], &request("k", 30 * S)).await;
    for backend in &backends[1..] {
        let TryLock::Busy(busy) = backend.try_lock(&request("k", 30 * S)).await.unwrap() else {
            panic!("held")
        };
        assert_eq!(busy.holder.unwrap().token, lease.token);
    }
}

async fn other_versions_are_refused(tables: Tables) {
    drop(tables.backend().await);
    for (version, part) in [(2, "upgrade this program"), (0, "distlock schema")] {
        tables.execute(&format!("UPDATE {{t}}_layout SET version = {version}")).await;
        let error = tables.try_connect(tables.config()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains(part), "{error}");
    }
}

async fn tables_that_were_half_made_are_completed(tables: Tables) {
    drop(tables.backend().await);
    for half in ["DELETE FROM {t}_layout", "DROP TABLE {t}_layout, {t}_claims"] {
        tables.execute(half).await;
        let error = tables.try_connect(tables.config().create(false)).await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Misconfigured, Effect::None));
        assert!(error.to_string().contains("distlock schema"), "{error}");
        let backend = tables.backend().await;
        let lease = take(&backend, &request("k", 30 * S)).await;
        backend.unlock(&lease.claim).await.unwrap();
    }
}

async fn tables_that_go_are_made_anew(tables: Tables) {
    let backend = tables.backend().await;
    let lease = take(&backend, &request("k", 30 * S)).await;
    tables.execute("DROP TABLE {t}, {t}_claims, {t}_layout").await;
    let next = take(&backend, &request("k", 30 * S)).await;
    assert!(next.token > lease.token, "the clock is the floor");
}

async fn one_may_not_create_and_the_other_does(tables: Tables) {
    let careful = tables.config().create(false);
    let error = tables.try_connect(careful.clone()).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Misconfigured, Effect::None));
    assert!(error.to_string().contains("distlock schema"), "{error}");
    drop(tables.backend().await);
    let backend = tables.connect(careful).await;
    take(&backend, &request("k", 30 * S)).await;
    tables.execute("DROP TABLE {t}, {t}_claims, {t}_layout").await;
    let error = backend.try_lock(&request("k", 30 * S)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Misconfigured, Effect::None));
    match tables.kind {
        Kind::Postgres => distlock_sql::postgres::create_schema(tables.config()).await.unwrap(),
        Kind::MySql => distlock_sql::mysql::create_schema(tables.config()).await.unwrap(),
    }
    take(&backend, &request("k", 30 * S)).await;
}

async fn a_user_without_rights_is_told(tables: Tables) {
    drop(tables.backend().await);
    let user = format!("u{}", &tables.name[2..12]);
    let (create, grant, end) = match tables.kind {
        Kind::Postgres => (
            format!("CREATE ROLE {user} LOGIN PASSWORD 'x'"),
            format!("GRANT SELECT ON {{t}}_layout TO {user}; GRANT SELECT ON {{t}} TO {user}"),
            format!("DROP OWNED BY {user}; DROP ROLE {user}"),
        ),
        Kind::MySql => (
            format!("CREATE USER {user} IDENTIFIED BY 'x'"),
            format!("GRANT SELECT ON {{t}}_layout TO {user}; GRANT SELECT ON {{t}} TO {user}"),
            format!("DROP USER {user}"),
        ),
    };
    tables.execute(&create).await;
    let config = tables.config().user(&user).password("x");
    let config = if tables.kind == Kind::Postgres { config.database("postgres") } else { config };
    let error = tables.try_connect(config.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    tables.execute(&grant).await;
    let backend = tables.connect(config.clone()).await;
    let error = backend.try_lock(&request("k", 30 * S)).await.unwrap_err();
    assert_eq!((error.kind(), error.effect()), (ErrorKind::PermissionDenied, Effect::None), "{error}");
    assert!(error.to_string().contains("INSERT, UPDATE and DELETE"), "{error}");
    if tables.kind == Kind::MySql {
        let wrong = config.password("never shown");
        let error = tables.try_connect(wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        assert!(!format!("{error} {error:?}").contains("never shown"));
    }
    backend.close().await.unwrap();
    tables.execute(&end).await;
}

async fn names_are_the_table_s_and_the_schema_s(tables: Tables) {
    let schema = format!("s{}", &tables.name[2..]);
    let config = tables.config().schema(&schema);
    let error = tables.try_connect(config.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    assert!(error.to_string().contains("CREATE SCHEMA"), "{error}");
    tables.execute(&format!("CREATE SCHEMA {schema}")).await;
    let (inside, outside) = (tables.connect(config).await, tables.backend().await);
    take(&inside, &request("k", 30 * S)).await;
    take(&outside, &request("k", 30 * S)).await;
    let mut raw = tables.raw().await;
    assert_eq!(raw.number(&format!("SELECT count(*) FROM {schema}.{{t}}")).await, 1);
    raw.execute(&format!("DROP SCHEMA {schema} CASCADE")).await;
}

async fn a_missing_database_or_schema_is_told(tables: Tables) {
    let error = tables.try_connect(tables.config().database("nowhere_at_all")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    if tables.kind == Kind::MySql {
        let error = tables.try_connect(tables.config().schema("s")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions, "{error}");
    }
}
