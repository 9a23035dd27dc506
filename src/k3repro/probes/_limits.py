"""The limits that a rung is judged by; a verdict keeps those that were in force."""

from k3repro.client import CLIENT_SHARE_LIMIT

LIMITS = {
    "forced_tokens": 0.001,  # relative difference of tokens delivered and tokens forced
    "delivered_concurrency": 0.95,  # least in-flight plateau over requested
    "little": 0.05,  # relative difference of arrival rate x time in system and requests in flight
    "prompt_tokens": 0.05,  # relative distance of a prompt from its target, as the server counted it, and
    "prompt_tokens_slack": 16,  # tokens beyond that: what short prompts vary by where nothing counts them
    "prompt_tokens_share": 0.9,  # least share of a rung's prompts within the sum of these two (one may miss)
    "prompt_tokens_far": 0.5,  # relative distance that no prompt may have
    "prompt_tokens_mean": 0.02,  # relative distance of the mean over many, and
    "prompt_tokens_mean_slack": 6,  # tokens beyond that; of few prompts more (`_mean_limit`)
    "cached_tokens": 0.02,  # largest share of prompt tokens served from a prefix cache
    "client_share": CLIENT_SHARE_LIMIT,  # largest share of what the client can do on this machine
    "client_lag_s": 0.001,  # p99 of missed deadlines in the client's own loop, or, if that is more,
    "client_lag_share": 0.05,  # this share of the time that is measured (`lateness`)
    "send_lag_s": 0.1,  # p99 of how late an open loop's requests went out, or, if that is more,
    "send_lag_share": 0.02,  # this share of the time over which they were due
}
