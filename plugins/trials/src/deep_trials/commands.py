"""`deep eval`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from deep_cli import Failure, load_key, say, say_json

from deep_core import Kernel

from .rows import ENDS
from .running import (
    INTERRUPTED,
    USAGE,
    chosen_suite,
    exit_code,
    failures,
    read_budget,
    run_all,
    run_folder,
    run_trials,
    show,
    until_stopped,
)

__all__ = ["evaluate"]

WORSE = 4
agent_option = click.option(
    "--agent",
    "agents",
    metavar="AGENT",
    multiple=True,
    help="module:attribute (an Agent, a DeepAgent, or a function that makes one), or a name of "
    "[plugins.trials.options.agents]. Default: deep, all installed plugins.",
)
model_option = click.option(
    "-m", "--model", "models", metavar="MODEL", multiple=True, help="provider:name; may be given several times."
)
n_option = click.option(
    "-n", "n", type=click.IntRange(1, 1000), default=1, show_default=True, help="Trials of each task."
)
jobs_option = click.option(
    "-j", "--jobs", "at_once", type=click.IntRange(1, 256), default=2, show_default=True, help="Trials at once."
)
out_option = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where trials go; done ones stay done.",
)
budget_option = click.option(
    "--budget", metavar="AMOUNT", help="Begin nothing more once it is spent: 5usd, 200000tokens, 50requests, 10min."
)
output_option = click.option(
    "--output",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How it is printed.",
)
task_option = click.option("--task", "tasks", metavar="TASK", multiple=True, help="Only these tasks.")


@click.group("eval")
def evaluate() -> None:
    """Measure an agent: run tasks, compare, and see what each plugin is worth."""


@evaluate.command("suites")
def suites() -> None:
    """List the suites that plugins bring, and those whose tasks other packages have."""
    from .finding import suite_lines

    with failures(), Kernel() as kernel:
        for line in suite_lines(kernel):
            say(line)


@evaluate.command("run")
@click.argument("suite_name", metavar="SUITE")
@model_option
@agent_option
@n_option
@jobs_option
@budget_option
@out_option
@click.option("--retry", "retry", type=click.Choice(ENDS), multiple=True, help="Run trials that ended so again.")
@task_option
@output_option
@click.pass_context
def run(ctx: click.Context, suite_name: str, **options: Any) -> None:
    """Run the tasks of SUITE, and show how many each agent solves.

    SUITE is a name, a folder, a file of BFCL's single-turn entries, or a dataset of pydantic-evals (YAML or JSON)
    with its Equals, EqualsExpected, Contains, IsInstance and MaxDuration. Other packages have the tasks of calls,
    injection and dialogue: deep eval suites says what to install.

    A trial is a process with a workspace, a home and a session of its own. Calls that ask are denied unless the task
    approves them. Killed or stopped, the same command with --out goes on with what is left.

    Exit code: 0 every trial has a verdict, 1 the harness or a provider failed in some, 130 stopped.
    """
    from .choosing import contenders, named

    with failures():
        with Kernel() as kernel:
            suite = chosen_suite(suite_name, kernel, options["tasks"])
            chosen = contenders(suite, options["agents"], options["models"], named(kernel, options["agents"]))
        outcome, folder = run_trials(suite, chosen, **options)
    show(outcome, folder, options["output"])
    ctx.exit(exit_code(outcome))


@evaluate.command("matrix")
@click.argument("suite_name", metavar="SUITE")
@model_option
@click.option(
    "--agent",
    "agents",
    metavar="AGENT",
    multiple=True,
    help="As of run, or a peer: bare (Pydantic AI with file tools), deepagents, pydantic-deep. Default: all four.",
)
@n_option
@jobs_option
@budget_option
@out_option
@task_option
@output_option
@click.pass_context
def matrix(ctx: click.Context, suite_name: str, **options: Any) -> None:
    """Run SUITE with deep and its peers, and compare each with the first by the tasks of both.

    A peer runs in an environment of its own, .peers/NAME of this folder. It takes models of OpenAI's API, also of a
    local server (OPENAI_BASE_URL), and the scripts of trials:*, which a server in its process plays.

    Exit code: as of run.
    """
    from .peers.environments import PEERS

    ctx.invoke(run, suite_name=suite_name, **{**options, "agents": options["agents"] or ("deep", *PEERS)})


@evaluate.command("validate")
@click.argument("suite_name", metavar="SUITE")
@click.option("--write", is_flag=True, help="Write the digests of the tasks into suite.toml.")
@click.option("--times", type=click.IntRange(1, 100), default=3, show_default=True, help="How often each is run.")
@jobs_option
@task_option
@click.pass_context
def validate(ctx: click.Context, suite_name: str, write: bool, times: int, at_once: int, tasks: Sequence[str]) -> None:
    """Check the tasks of SUITE: the reference solution passes, and doing nothing fails, each time.

    Exit code: 0 all tasks are good, 1 some are not.
    """
    from .finding import find_suite
    from .suites import write_hashes
    from .validating import validate_suite

    with failures():
        with Kernel() as kernel:
            suite = find_suite(suite_name, kernel)
        if tasks and write:
            raise Failure("--write needs all tasks: leave out --task", USAGE)
        found = until_stopped(validate_suite(suite, times=times, at_once=at_once, only=tasks))
    for name, problem in found.items():
        say(
            (f"{'ok' if problem is None else 'bad':4}", "green" if problem is None else "red"),
            f"{name}  {problem or ''}".rstrip(),
        )
    bad = sum(problem is not None for problem in found.values())
    if write and not bad:
        write_hashes(suite)
    say(f"\n{len(found) - bad} of {len(found)} tasks are good, {times} times each")
    ctx.exit(1 if bad else 0)


@evaluate.command("compare")
@click.argument("first", type=click.Path(exists=True, path_type=Path), metavar="A")
@click.argument("second", type=click.Path(exists=True, path_type=Path), metavar="B")
@click.option("--fail-if-worse", "worse", metavar="SHARE", help="Exit with 4 if B solves fewer by more than this: 5%.")
@click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How it is printed."
)
@click.pass_context
def compare_command(ctx: click.Context, first: Path, second: Path, worse: str | None, output: str) -> None:
    """Compare two runs, folders or trials.jsonl, by the tasks that both have.

    Of several agents or models, those in both runs are compared, each with itself.
    """
    from .comparing import compare_runs
    from .reports import comparison_json, comparison_lines
    from .rows import read_rows

    points = None if worse is None else _share(worse)
    with failures():
        rows = [read_rows(path) for path in (first, second)]
        try:
            found = compare_runs(*rows)
        except ValueError as error:
            raise Failure(str(error), 1) from error
    is_worse = points is not None and any(each.worse_by(points) for each in found)
    if output == "json":
        every = [comparison_json(each) for each in found]
        say_json({**(every[0] if len(every) == 1 else {"schema": 1, "comparisons": every}), "worse": is_worse})
    else:
        say("\n\n".join("\n".join(comparison_lines(each)) for each in found))
    if is_worse:
        say(f"worse by more than {worse}", err=True)
    ctx.exit(WORSE if is_worse else 0)


def _share(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text.strip())
    if found is None or float(found[1]) > 100:
        raise Failure(f"--fail-if-worse {text!r}: write a share in percent, such as 5%", USAGE)
    return float(found[1]) / 100


@evaluate.command("ablate")
@click.argument("suite_name", metavar="SUITE")
@click.option("-m", "--model", "model", metavar="MODEL", help="provider:name. Default: the suite's first.")
@click.option("--agent", metavar="NAME", default="deep", show_default=True, help="deep, or a named configuration.")
@click.option(
    "--plugin", "plugins", metavar="NAME", multiple=True, help="Leave out this one; may be given several times."
)
@click.option("--tool", "tools", metavar="NAME", multiple=True, help="Leave out this tool; may be given several times.")
@n_option
@jobs_option
@budget_option
@out_option
@task_option
@click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How it is printed."
)
@click.pass_context
def ablate(ctx: click.Context, suite_name: str, **options: Any) -> None:
    """Run SUITE with the whole agent and without one plugin at a time: what each costs, and what it is worth.

    Without --plugin and --tool: every plugin that contributes anything and that no task requires by its nature.
    """
    from .ablation import Part, ablated, parts_of, worth_json, worth_lines, worths
    from .choosing import contenders, named
    from .runs import Outcome

    with failures():
        with Kernel() as kernel:
            suite = chosen_suite(suite_name, kernel, options["tasks"])
            models, agents = [options["model"]] if options["model"] else [], [options["agent"]]
            whole = contenders(suite, agents, models, named(kernel, agents))[0]
            parts = [Part("plugin", name) for name in options["plugins"]] + [
                Part("tool", name) for name in options["tools"]
            ]
            _check_plugins(options["plugins"], kernel)
        if ":" in whole.agent:
            raise Failure("ablate needs an agent of deep: --agent deep, or a named configuration", USAGE)
        outcome, folder = run_trials(suite, [whole], **options)
        if outcome.end == "done":
            parts = parts or parts_of(outcome.rows, suite)
            chosen = [whole, *(ablated(whole, part) for part in parts)]
            options["out"] = folder
            outcome, folder = run_trials(suite, chosen, **options)
        rows = outcome.rows
        try:
            found = worths(rows)
        except ValueError as error:
            raise Failure(str(error), 1) from error
    if options["output"] == "json":
        say_json(worth_json(found, str(folder)))
    else:
        say("\n".join(["", *worth_lines(found)]))
        show(Outcome([row for row in rows if not row.without], outcome.end, outcome.left), folder, "text")
    ctx.exit(exit_code(outcome))


def _check_plugins(names: Sequence[str], kernel: Kernel) -> None:
    for name in names:
        if name not in kernel.active:
            raise Failure(f"--plugin {name}: {kernel.describe(name)}", USAGE)


@evaluate.command("record")
@click.argument("suite_name", metavar="SUITE")
@click.argument("cassette", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@model_option
@agent_option
@n_option
@jobs_option
@budget_option
@out_option
@task_option
@click.pass_context
def record(ctx: click.Context, suite_name: str, cassette: Path, **options: Any) -> None:
    """Run SUITE, and write what the models answered to FILE, so that `replay` needs neither key nor network.

    Values of variables that are named like keys are left out of FILE. Trials that a time-out, a provider or the
    harness ended are not in it.

    Exit code: as of run.
    """
    from dataclasses import replace

    from .cassettes import write_cassette
    from .choosing import contenders, named
    from .runs import RECORD, jobs_of

    with failures():
        with Kernel() as kernel:
            suite = chosen_suite(suite_name, kernel, options["tasks"])
            chosen = contenders(suite, options["agents"], options["models"], named(kernel, options["agents"]))
        for model in {each.model for each in chosen if each.model}:
            load_key(model)
        folder = run_folder(options["out"], suite.name)
        jobs = [replace(job, tape=RECORD) for job in jobs_of(suite, chosen, options["n"])]
        outcome = run_all(jobs, folder, options["at_once"], read_budget(options["budget"]), ())
        kept = write_cassette(cassette, suite_name, jobs, outcome.rows, folder)
    show(outcome, folder, "text")
    say(f"\n{cassette}  {kept} of {len(outcome.rows)} trials; deep eval replay {cassette} plays them")
    ctx.exit(exit_code(outcome))


@evaluate.command("replay")
@click.argument("cassette", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--suite", "suite_name", metavar="SUITE", help="Its suite, if it is no longer where it was recorded.")
@jobs_option
@out_option
@task_option
@click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How it is printed."
)
@click.pass_context
def replay(ctx: click.Context, cassette: Path, suite_name: str | None, output: str, **options: Any) -> None:
    """Run the trials of FILE again with its recorded answers: the whole agent, without a key and without a network.

    A trial whose prompt or tools are not the recorded ones ends, and names the plugins that changed them: record it
    again.

    Exit code: 0 all trials end as they were recorded, 1 some do not.
    """
    from .cassettes import difference_lines, differences, jobs_to_play, read_cassette
    from .reports import as_json

    with failures():
        tape = read_cassette(cassette)
        with Kernel() as kernel:
            suite = chosen_suite(suite_name or tape.suite, kernel)
        only = options["tasks"]
        jobs = [job for job in jobs_to_play(tape, suite) if not only or job.task.name in only]
        if not jobs:
            raise Failure(f"{cassette} has no trial{' of that task' if only else ''}", USAGE)
        folder = run_folder(options["out"], f"replay-{suite.name}")
        outcome = run_all(jobs, folder, options["at_once"], None, ())
        found = differences(tape.rows, outcome.rows)
    if output == "json":
        said = as_json(outcome.rows, outcome.end, outcome.left, str(folder))
        say_json({**said, "differences": [vars(each) for each in found]})
    else:
        show(outcome, folder, "text")
        same = len(outcome.rows) - len(found)
        say("\n".join(["", *(difference_lines(found) if found else ()), f"{same} of {len(jobs)} trials as recorded"]))
    ctx.exit(INTERRUPTED if outcome.end == "stopped" else 1 if found else 0)


@evaluate.command("harbor")
@click.argument(
    "file", type=click.Path(dir_okay=False, path_type=Path), metavar="[FILE.py]", default=Path("deep_harbor.py")
)
def harbor(file: Path) -> None:
    """Write FILE.py, by default deep_harbor.py: deep as an installed agent of Harbor, for Terminal-Bench and SWE-bench.

    Harbor installs deep's wheels (make wheels) into the container of each task, which needs Python 3.11 or newer.
    """
    import shutil

    from .peers.environments import HARBOR_AGENT

    shutil.copyfile(HARBOR_AGENT, file)
    say(f"harbor run --dataset DATASET --agent {file.stem}:Deep --agent-kwarg wheels=dist --model openai/gpt-5.2")


@evaluate.command("report")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@output_option
def report(folder: Path, output: str) -> None:
    """Show a run again, and write its page again."""
    from .rows import read_rows
    from .runs import Outcome

    with failures():
        rows = read_rows(folder)
    show(Outcome(rows, "done", 0), folder, output)
