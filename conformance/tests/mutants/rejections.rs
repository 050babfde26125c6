//! Which cases must reject which flaw, and why.

use crate::flaw::Flaw;

/// Each flaw with the cases that must fail because of it, and what each must say.
pub(crate) const MUTANTS: &[(Flaw, &[(&str, &str)])] = &[
    (
        Flaw::UnlockIgnoresTheOwner,
        &[
            ("unlock::it_leaves_other_owners_alone", "NotHeld(Stolen)"),
            ("unlock::a_late_release_leaves_the_successor_alone", "H4"),
        ],
    ),
    (
        Flaw::HandOverKeepsTheToken,
        &[
            ("unlock::handing_over_gives_the_next_a_higher_token", "the token went from"),
            ("handing_over::tokens_rise_along_the_line", "tokens went down the line"),
            ("handing_over::tokens_rise_along_the_line", "H2"),
        ],
    ),
    (
        Flaw::HandOverIgnoresTheOwner,
        &[
            ("unlock::handing_over_what_is_lost_gives_nothing", "was handed over"),
            ("handing_over::what_was_taken_away_is_not_passed_on", "it was taken away"),
        ],
    ),
    (
        Flaw::RenewRecreates,
        &[
            ("renewal::it_never_brings_back_an_expired_lock", "Lost(Expired)"),
            ("renewal::it_never_brings_back_a_released_lock", "a released lock is lost"),
            ("renewal::it_never_creates_a_lock", "what was never held is lost"),
            ("server::a_holder_whose_record_is_gone_is_told", "without a record a renewal gave"),
        ],
    ),
    (
        Flaw::RenewShortens,
        &[
            ("renewal::it_never_shortens_it", "after a lease of"),
            ("renewal::it_never_shortens_it_in_the_store", "H4"),
        ],
    ),
    (Flaw::RenewDrawsAToken, &[("fencing::the_token_stays_under_renewal", "H2")]),
    (
        Flaw::TtlIsHalved,
        &[("expiry::it_never_ends_early", "after a lease of"), ("expiry::it_never_ends_early", "H1")],
    ),
    (
        Flaw::ExpiresEarly,
        &[
            ("expiry::it_never_ends_early", "after a lease of"),
            ("expiry::it_never_ends_early_after_a_renewal", "after a lease of"),
            ("expiry::it_never_ends_early_after_a_repeat", "after a lease of"),
            ("unlock::a_late_release_leaves_the_successor_alone", "H1"),
        ],
    ),
    (
        Flaw::NeverExpires,
        &[("expiry::an_unrenewed_lease_ends", "in vain"), ("fencing::tokens_rise_after_expiry", "in vain")],
    ),
    (Flaw::TtlIsRoundedDown, &[("expiry::the_stated_ttl_is_the_rounded_one", "rounded down")]),
    (
        Flaw::TokenGoesWithTheRecord,
        &[
            ("fencing::tokens_rise_with_every_grant", "the token went from"),
            ("fencing::tokens_rise_with_every_grant", "H2"),
            ("exclusion::the_lock_can_be_taken_again_and_again", "H2"),
        ],
    ),
    (
        Flaw::TokenGoesWithPruning,
        &[("fencing::tokens_rise_after_idle_keys_are_pruned", "the token went from")],
    ),
    (
        Flaw::ForcedReleaseKeepsTheToken,
        &[
            ("fencing::tokens_rise_after_a_forced_release", "H2"),
            ("admin::a_forced_release_frees_and_says_from_whom", "H2"),
        ],
    ),
    (Flaw::FloorIsIgnored, &[("fencing::a_raised_floor_is_kept", "the token went from")]),
    (
        Flaw::RepeatDrawsAToken,
        &[
            ("exclusion::a_repeat_gives_the_same_grant", "same token"),
            ("fencing::the_token_stays_under_late_repeats", "H2"),
            ("wire::a_grant_whose_answer_was_lost_is_the_same_grant", "is the same grant"),
        ],
    ),
    (
        Flaw::RepeatIsBusy,
        &[
            ("exclusion::a_repeat_gives_the_same_grant", "is free, yet"),
            ("ambiguity::a_waiting_client_is_not_busy_by_itself", "its own record does not block it"),
        ],
    ),
    (
        Flaw::ValidityFromTheAnswer,
        &[
            ("expiry::validity_counts_from_the_send", "counts from the answer"),
            ("wire::a_grant_slower_than_its_ttl_is_given_back", "says it is valid"),
        ],
    ),
    (
        Flaw::GrantWithoutLooking,
        &[
            ("waiting::b046_losing_a_race_is_not_giving_up", "H1"),
            ("guard::tasks_of_many_clients_count_right", "H1"),
        ],
    ),
    (
        Flaw::CheckThenAct,
        &[
            ("exclusion::one_of_many_racing_claims_wins", "one wins"),
            ("exclusion::attempts_from_many_connections_count_right", "H1"),
        ],
    ),
    (Flaw::TroubleIsBusy, &[("ambiguity::trouble_is_never_busy", "an outage shows as Ok(Ok(Busy")]),
    (
        Flaw::LostAnswerIsBusy,
        &[
            ("ambiguity::an_answer_lost_by_the_store_is_never_busy", "busy because of its own record"),
            ("wire::a_grant_whose_answer_was_lost_is_the_same_grant", "busy because of its own record"),
        ],
    ),
    (
        Flaw::ReleasedButKept,
        &[
            ("unlock::it_frees_the_lock_at_once", "is free, yet"),
            ("unlock::it_frees_the_lock_at_once", "H5"),
            ("guard::a_dropped_guard_releases", "in vain"),
        ],
    ),
    (
        Flaw::AlwaysReleased,
        &[
            ("unlock::twice_is_told_from_once", "nobody holds it any more"),
            ("unlock::a_late_release_leaves_the_successor_alone", "H4"),
        ],
    ),
    (
        Flaw::StolenIsExpired,
        &[
            ("renewal::a_stolen_lock_is_told_from_an_expired_one", "Stolen"),
            ("unlock::b048_an_expired_and_a_stolen_lock_get_different_answers", "Stolen"),
        ],
    ),
    (
        Flaw::KeysAreLowercased,
        &[
            ("names::torturous_keys_are_all_different", "is free, yet"),
            ("exclusion::other_keys_stay_free", "is free, yet"),
        ],
    ),
    (Flaw::KeysEndAtNul, &[("names::torturous_keys_are_all_different", "is free, yet")]),
    (Flaw::PrefixIsAPattern, &[("names::prefixes_match_bytes_and_nothing_else", "prefix")]),
    (
        Flaw::PlainTryQueues,
        &[
            ("fairness::a_plain_try_leaves_nothing_behind", "a plain try does not wait"),
            ("fairness::a_plain_try_leaves_nothing_behind", ""),
        ],
    ),
    (
        Flaw::PlainTryPasses,
        &[
            ("fairness::a_plain_try_never_passes_a_waiter", "is held, yet"),
            ("capabilities::a_declared_queue_keeps_its_waiters", "is held, yet"),
            ("fairness::strict_order_holds_across_clients", "H5"),
        ],
    ),
    (
        Flaw::QuittersStay,
        &[
            ("unlock::it_takes_the_claim_out_of_the_queue", "H5"),
            ("cancellation::time_limits_on_waiters_leave_nothing", "in vain"),
            ("timeouts::giving_up_leaves_nothing_behind", "in vain"),
        ],
    ),
    (
        Flaw::LastInFirstOut,
        &[
            ("fairness::waiters_are_served_in_order", "is held, yet"),
            ("fairness::strict_order_holds_across_clients", "was served first"),
        ],
    ),
    (
        Flaw::NoPush,
        &[("capabilities::a_declared_push_reaches_another_connection", "a release wakes a waiter")],
    ),
    (
        Flaw::PushIgnoresTheCursor,
        &[("hints::a_release_between_answer_and_watch_is_not_missed", "the cursor makes up for")],
    ),
    (
        Flaw::ShowsTheExpired,
        &[
            ("expiry::an_expired_holder_is_not_shown", "vanish"),
            ("admin::only_held_and_awaited_locks_are_listed", "left"),
        ],
    ),
    (Flaw::BatchOutOfOrder, &[("renewal::many_are_answered_in_order", "stands in the place of another")]),
    (
        Flaw::TroubleIsRenewed,
        &[("network::an_outage_that_lasts_ends_in_a_loss_by_the_deadline", "without an answer")],
    ),
    (Flaw::OutageIsALoss, &[("network::a_short_outage_does_not_cost_the_lock", "cost the lock")]),
    (
        Flaw::OutageIsFatal,
        &[
            ("network::a_waiter_rides_out_an_outage", "trouble that passes"),
            ("network::an_unreachable_store_is_named", "Unavailable"),
        ],
    ),
    (
        Flaw::NeverReconnects,
        &[
            ("network::an_outage_that_lasts_ends_in_a_loss_by_the_deadline", "the client to work again"),
            ("network::a_release_during_an_outage_is_made_good", "the store works"),
        ],
    ),
    (
        Flaw::HoldsGoWithARestart,
        &[
            ("crash::held_locks_survive_a_restart", "is held, yet"),
            ("server::a_holder_goes_on_after_a_restart", "cost the lock"),
        ],
    ),
    (
        Flaw::TokensGoWithTheData,
        &[
            ("fencing::tokens_rise_after_a_restart", "the token went from"),
            ("server::tokens_rise_without_the_data", "the token went from"),
        ],
    ),
    (Flaw::TakesAnyTtl, &[("limits::absurd_ttls_leave_nothing_in_the_store", "an absurd ttl is refused")]),
];

/// The same for the store behind TCP.
pub(crate) const REMOTE: &[(Flaw, &[(&str, &str)])] = &[
    (
        Flaw::UnlockIgnoresTheOwner,
        &[
            ("wire::a_late_release_leaves_the_successor_alone", "is held, yet"),
            ("wire::doubled_requests_leave_the_successor_alone", "is held, yet"),
        ],
    ),
    (Flaw::RenewRecreates, &[("wire::doubled_requests_leave_the_successor_alone", "is free, yet")]),
    (
        Flaw::NeverExpires,
        &[
            ("network::b005_a_silenced_holder_is_succeeded", "in vain"),
            ("wire::a_late_renewal_brings_nothing_back", "in vain"),
        ],
    ),
    (Flaw::RepeatIsBusy, &[("wire::a_grant_whose_answer_was_lost_is_the_same_grant", "its own record")]),
    (Flaw::RepeatDrawsAToken, &[("wire::a_grant_whose_answer_was_lost_is_the_same_grant", "H2")]),
    (
        Flaw::BreaksForGood,
        &[
            ("network::resets_do_not_cost_the_lock", "a reset cost the lock"),
            ("network::a_waiter_rides_out_a_reset", "served"),
            ("wire::clients_put_lost_answers_right", "its own record"),
            ("network::many_short_outages_leave_nothing_behind", "trouble that passes"),
        ],
    ),
    (Flaw::ResetIsALoss, &[("network::resets_do_not_cost_the_lock", "a reset cost the lock")]),
    (
        Flaw::ResetIsBusy,
        &[
            ("wire::a_grant_whose_answer_was_lost_is_the_same_grant", "its own record"),
            ("ambiguity::trouble_is_never_busy", "an outage shows as Ok(Ok(Busy"),
        ],
    ),
    (
        Flaw::ReadsTheLastAnswer,
        &[("wire::an_answer_that_comes_too_late_is_nobody_else_s", "busy because of its own record")],
    ),
];
