//! Locks that are passed on to the next contender.

use std::time::Duration;

use distlock_conformance::Fault as TcpFault;
use distlock_core::{FencingToken, LockAdmin, LockBackend, LockRequest, LostReason, Release, Renewal, TryLock};

use crate::support::{backend, folder, raw, refused, request, take, tests};
