"""What EXPLAIN tells of queries with SLIDE AT MOST: who runs together, how often, by when, and what that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mullion.language.query import TIME_AXIS
from mullion.language.render import duration_text
from mullion.options import Schedule
from mullion.planner.explained import MOST_SHOWN, branched
from mullion.planner.plan import Grouping, Plan
from mullion.planner.schedules.cost import separate_cost
from mullion.planner.schedules.deadlines import Deadline, deadline_facts, deadline_text
from mullion.planner.schedules.groups import Covered, Group, access_cost, covered_queries, groups_of
from mullion.planner.schedules.schedulers import scheduler_of
from mullion.planner.schedules.tasks import Task
from mullion.planner.sliced import SlicedAggregation
from mullion.plural import plural

AUTO = "auto (hybrid, while late late-pending)"
MOST_NAMED = 8


def schedule_lines(plan: Plan, deadlines: Mapping[str, Deadline]) -> list[str]:
    """The schedule of a plan, group by group; nothing where no query is scheduled."""
    groups = groups_of([("", plan)])
    if not groups:
        return []
    schedule = plan.options.schedule
    number = sum(len(task.queries) for group in groups for task in group.subgroups)
    head = f"schedule {AUTO if schedule is Schedule.AUTO else schedule}: {plural(number, 'query', 'queries')}"
    lines = [f"  {head} in {plural(len(groups), 'group')}"]
    texts = []
    for group in groups[:MOST_SHOWN]:
        tasks = scheduler_of(schedule).tasks(group.subgroups)
        cost, alone = scheduler_of(schedule).cost(tasks), separate_cost(group.subgroups)
        told = "; ".join(_task_text(group, task) for task in tasks)
        step = duration_text(group.key.step)
        texts.append(f"{_shared_text(group)}, updated every {step}: {told}; {cost:.4g} an update, alone {alone:.4g}")
        texts.append(f"deadlines: {_deadlines_text(plan, group, deadlines)}")
        texts += [_covered_text(covered) for covered in group.covered[:MOST_NAMED]]
        texts += [f"CS8: {name} takes the answers of {leader}" for name, leader in group.followers[:MOST_NAMED]]
    if len(groups) > MOST_SHOWN:
        texts.append(f"... and {len(groups) - MOST_SHOWN} more groups")
    return lines + branched("    ", texts)


def covered_exactly(plan: Plan, grouping: Grouping) -> list[Covered]:
    """The queries of a grouping with exact slides whose windows may be combined from those of others."""
    if plan.axis != TIME_AXIS or not grouping.states or grouping.counted:
        return []
    return covered_queries(grouping, [query for query in grouping.queries if query.at_most is None])


def covered_lines(plan: Plan, grouping: Grouping) -> list[str]:
    covered = covered_exactly(plan, grouping)
    more = [f"... and {len(covered) - MOST_NAMED} more"] if len(covered) > MOST_NAMED else []
    return [_covered_text(own) for own in covered[:MOST_NAMED]] + more


def schedule_facts(plan: Plan, deadlines: Mapping[str, Deadline]) -> list[dict[str, Any]]:
    """The same for programs."""
    scheduler = scheduler_of(plan.options.schedule)
    facts = []
    for group in groups_of([("", plan)]):
        tasks, step = scheduler.tasks(group.subgroups), group.key.step
        facts.append(
            {
                "rule": group.rule,
                "group_by": group.key.grouping,
                "predicate": group.key.slot or None,
                "walks": group.key.synopsis or None,
                "step": duration_text(step),
                "sub_groups": [_task_facts(task, step) for task in group.subgroups],
                "tasks": [_task_facts(task, step) for task in tasks],
                "deadlines": {
                    query.name: deadline_facts(query, deadlines.get(query.name)) for query in _queries(plan, group)
                },
                "cost": round(scheduler.cost(tasks), 6),
                "cost_without_sharing": round(separate_cost(group.subgroups), 6),
                "takes_answers_of": dict(group.followers),
                "combined_from": {own.query.name: [c.name for c in own.candidates] for own in group.covered},
            }
        )
    return facts


def _queries(plan: Plan, group: Group) -> list[SlicedAggregation]:
    """The queries of a group, by their periods."""
    names = {name for task in group.subgroups for name in task.queries}
    return sorted((query for query in plan.queries if query.name in names), key=lambda query: query.at_most or 0)


def _deadlines_text(plan: Plan, group: Group, deadlines: Mapping[str, Deadline]) -> str:
    queries = _queries(plan, group)
    more = f" and {len(queries) - MOST_SHOWN} more" if len(queries) > MOST_SHOWN else ""
    return deadline_text(queries[:MOST_SHOWN], deadlines) + more


def _task_facts(task: Task, step: int) -> dict[str, Any]:
    return {
        "queries": list(task.queries),
        "period": duration_text(task.period * step),
        "access": task.access,
        "finish": task.finish,
    }


def _shared_text(group: Group) -> str:
    where = f" WHERE {group.key.slot}" if group.key.slot else ""
    over = "slice only" if group.key.grouping == "()" else group.key.grouping
    length = "" if group.key.length is None else f", windows of {duration_text(group.key.length)}"
    walked = f" over {group.key.synopsis}" if group.key.synopsis else ""
    return f"{group.rule}{walked} by {over}{where}{length}"


def _task_text(group: Group, task: Task) -> str:
    """The queries of a task by sub-group, with the periods that were asked for where they are others. Those that take
    the answers of another have asked for a longer one."""
    parts, following = [], {name for name, _ in group.followers}
    for subgroup in group.subgroups:
        if own := [name for name in subgroup.queries if name in task.queries]:
            asked = f" (asked every {duration_text(subgroup.period * group.key.step)})"
            leading = _listed([name for name in own if name not in following])
            followed = [_listed(names)] if (names := [name for name in own if name in following]) else []
            parts.append(", ".join([leading + (asked if subgroup.period != task.period else ""), *followed]))
    return f"{' with '.join(parts)} every {duration_text(task.period * group.key.step)}"


def _covered_text(covered: Covered) -> str:
    """SS4 says that the answers of some serve another, the other rule when they do. Each batch decides anew whether it
    is done: with few rows or groups it saves nothing."""
    own, names = covered.query, _listed([candidate.name for candidate in covered.candidates])
    cost = f"{covered.cost:.4g} an execution, alone {access_cost(own):.4g}"
    when = "" if own.at_most is None else ", at the instants of all"
    return f"SS4, {covered.rule}: {own.name} may be combined from the answers of {names}{when}: {cost}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
