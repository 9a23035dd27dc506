"""The order of a bring-up as lines of a script, over ssh and as a batch job alike."""

from __future__ import annotations

import json
import shlex

from k3repro.bringup._cluster import ROLES, Node
from k3repro.bringup._plan import Plan, url_host

# What somebody reads first of a role that died; $1 is its log.
LAST_WORDS = """echo "k3repro: first error and last lines of $1 on $(hostname):" >&2
grep -anE -m 1 '(^|[^A-Za-z])(ERROR|CRITICAL|FATAL)([^A-Za-z]|$)|Traceback|Error:' "$1" >&2
tail -n 30 -- "$1" >&2
"""


def in_order(plan: Plan, start: list[str], router: str) -> list[str]:
    """Workers, masters, both model lists, the router, one token through it. The script defines `look`."""
    alive = f"sleep {plan.timing('alive_s'):g}"
    return [*start[:2], alive, *start[2:], *_wait_for_models(plan), router, *_wait_for_a_token(plan)]


def chosen(what: str, node: Node) -> str:
    """The element of a bash array that belongs to a node which Slurm chose."""
    return f"${{{what}[{ROLES.index(node.role)}]}}"


def _polls(plan: Plan, timing: str) -> int:
    return max(1, int(plan.timing(timing) // max(plan.timing("poll_s"), 0.1)))


def _wait_for_models(plan: Plan) -> list[str]:
    """Poll both masters' model list, as the recipe does; a master that hangs is no reason to wait for it."""
    lines, model = [], plan.launches[0].flag("--served-model-name") or ""
    for role in ("prefill_master", "decode_master"):
        launch = plan.launch(role)
        url = f"http://{url_host(launch.node.address)}:{launch.flag('--port')}/v1/models"
        ask = f"curl -sf --connect-timeout 5 -m 15 --noproxy '*' {_url(plan, url, launch.node)}"
        lines += [
            "n=0",
            f"until {ask} | grep -q {shlex.quote(model)}; do",
            "  look",
            f"  n=$((n + 1)); [ $n -lt {_polls(plan, 'ready_s')} ] || "
            f"{{ echo '{role} lists no model' >&2; exit 1; }}",
            f"  sleep {plan.timing('poll_s'):g}",
            "done",
        ]
    return lines


def _wait_for_a_token(plan: Plan) -> list[str]:
    """Nothing is served before a token came through the router; a request that hangs ends it."""
    model = plan.launches[0].flag("--served-model-name") or ""
    body = shlex.quote(json.dumps({"model": model, "prompt": "Hello", "max_tokens": 1}))
    url = _url(plan, plan.router.url, plan.router.node)
    return [
        "answer() {",
        f"  curl -sf -o /dev/null --connect-timeout 5 -m {plan.timing('answer_s'):g} --noproxy '*' \\",
        f"    -H 'Content-Type: application/json' -d {body} \\",
        f"    {url}/v1/completions &",
        "  asked=$!",
        '  while kill -0 "$asked" 2> /dev/null; do look; sleep 1; done',
        '  wait "$asked"',
        "}",
        "n=0",
        "until answer; do",
        "  n=$((n + 1))",
        f"  [ $n -lt {_polls(plan, 'register_s')} ] || {{ echo 'no token through the router' >&2; exit 1; }}",
        f"  sleep {plan.timing('poll_s'):g}",
        "done",
        f"echo k3repro: serving at {url}: one token came through the router, the gate was not run",
    ]


def _url(plan: Plan, url: str, node: Node) -> str:
    if not plan.cluster.unnamed:
        return shlex.quote(url)
    return f'"{url.replace(node.address, chosen("addresses", node))}"'
