"""Rules of the router: what it can do was asked from the router itself."""

from __future__ import annotations

from collections.abc import Iterator

from k3repro.bringup._plan import Plan
from k3repro.bringup._rule import rule


def _value(plan: Plan, flag: str) -> str | None:
    argv = plan.router.argv
    return argv[argv.index(flag) + 1] if flag in argv[:-1] else None


@rule(
    "router-capability",
    "deny",
    source="router 0.1.17, measured",
    reason="The router lacks an option that nothing can stand in for.",
    fix="Install the router the recipe pins, or vllm-router 0.1.17.",
)
def _capability(plan: Plan) -> Iterator[str]:
    for item in plan.substitutions:
        if item.fatal:
            yield f"{item.flag} {item.value}"


@rule(
    "router-connector",
    "deny",
    source="router 0.1.17, measured",
    reason="With another connector the router accepts the pings and silently runs another flow.",
    fix="router.flags.--kv-connector = moriio.",
)
def _connector(plan: Plan) -> Iterator[str]:
    if _value(plan, "--kv-connector") != "moriio":
        yield f"--kv-connector is {_value(plan, '--kv-connector')}"


@rule(
    "router-discovery",
    "deny",
    source="router 0.1.17, measured",
    reason="MoRI-IO requires discovery: static addresses alone are refused.",
    fix="router.flags.--vllm-discovery-address, on the port engines ping.",
)
def _discovery(plan: Plan) -> Iterator[str]:
    address = _value(plan, "--vllm-discovery-address") or ""
    ping = str(plan.recipe.get("ports", "ping"))
    if address.rpartition(":")[2] != ping:
        yield f"discovery on {address or 'nothing'}, engines ping {ping}"


@rule(
    "router-policy",
    "warn",
    source="router 0.1.17, measured",
    reason="cache_aware, the default, sends two extra requests to every engine before each request.",
    fix="router.flags.--policy = round_robin or consistent_hash.",
)
def _policy(plan: Plan) -> Iterator[str]:
    for flag in ("--policy", "--prefill-policy", "--decode-policy"):
        value = _value(plan, flag)
        if value == "cache_aware" or (flag == "--policy" and value is None):
            yield f"{flag} is {value or 'the default'}"


@rule(
    "router-request-timeout",
    "substitutes",
    source="router 0.1.17, measured",
    reason="The timeout covers the whole stream: a longer answer is cut without an error event.",
    fix="router.flags.--request-timeout-secs above the longest request.",
)
def _timeout(plan: Plan) -> Iterator[str]:
    layout = plan.recipe.layout
    limit = float(_value(plan, "--request-timeout-secs") or 1800)
    wall = layout.wall
    if wall is not None and wall.k_s_per_token * layout.max_model_len > limit:
        yield f"{limit:g} s; an answer of {int(limit / wall.k_s_per_token):,} tokens takes longer"
