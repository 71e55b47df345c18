"""The API server's verbs: what they answer, and what they refuse, in the words of a real one."""

from __future__ import annotations

import asyncio
import json

from paperclip_launcher.cluster.transport import Request
from tests.fakeapi.model import Program, Refusal
from tests.fakeapi.requests import (
    JSON_PATCH,
    MERGE_PATCH,
    create,
    delete,
    get,
    job_tree,
    lease_tree,
    owned_by,
    path_of,
    secret_tree,
    send,
)

HANG = Program(end="hang")


def status(response):
    tree = json.loads(response.body)
    return response.status, tree.get("reason"), tree.get("message")


def test_a_second_create_answers_already_exists(play):
    async def history(cluster, transport):
        made = await create(transport, "jobs", job_tree("run-a"))
        again = await send(transport, "POST", path_of("jobs"), job_tree("run-a"))
        return made, status(again)

    made, again = play(history)
    assert made["metadata"]["uid"] == made["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"]
    assert again == (409, "AlreadyExists", 'jobs.batch "run-a" already exists')


def test_a_name_that_is_none_is_invalid_and_a_dry_run_leaves_nothing(play):
    async def history(cluster, transport):
        bad = await send(transport, "POST", path_of("jobs"), job_tree("Run_A"))
        dry = await send(transport, "POST", path_of("jobs"), job_tree("run-a"), dryRun="All")
        return status(bad)[:2], dry.status, cluster.objects("jobs")

    assert play(history) == ((422, "Invalid"), 201, [])


def test_json_patch_with_a_test_that_fails_changes_nothing(play):
    async def history(cluster, transport):
        await create(transport, "jobs", job_tree("run-a"))
        path = path_of("jobs", "run-a")
        test = {"op": "test", "path": "/metadata/annotations/paperclip.io~1owner", "value": "two"}
        change = {"op": "replace", "path": "/metadata/annotations/paperclip.io~1owner", "value": "three"}
        no = await send(transport, "PATCH", path, [test, change], kind=JSON_PATCH)
        yes = await send(transport, "PATCH", path, [{**test, "value": "one"}, change], kind=JSON_PATCH)
        stale = {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}
        conflict = await send(transport, "PATCH", path, [stale], kind=JSON_PATCH)
        return status(no), json.loads(yes.body)["metadata"]["annotations"], status(conflict)[:2]

    no, annotations, conflict = play(history, program_for=lambda job: HANG)
    assert no == (422, "Invalid", "the server rejected our request due to an error in our request")
    assert annotations == {"paperclip.io/owner": "three"}
    assert conflict == (409, "Conflict")


def test_merge_patch_changes_the_time_to_live_but_not_the_template(play):
    async def history(cluster, transport):
        await create(transport, "jobs", job_tree("run-a"))
        path = path_of("jobs", "run-a")
        fine = await send(transport, "PATCH", path, {"spec": {"ttlSecondsAfterFinished": 5}}, kind=MERGE_PATCH)
        wrong = await send(transport, "PATCH", path, {"spec": {"template": {"spec": {"x": 1}}}}, kind=MERGE_PATCH)
        return json.loads(fine.body)["spec"]["ttlSecondsAfterFinished"], status(wrong)[:2]

    assert play(history, program_for=lambda job: HANG) == (5, (422, "Invalid"))


def test_a_put_needs_the_newest_version_and_no_change_makes_none(play):
    async def history(cluster, transport):
        lease = await create(transport, "leases", lease_tree("lock"))
        path = path_of("leases", "lock")
        same = await send(transport, "PUT", path, lease)
        changed = {**lease, "spec": {"holderIdentity": "two"}}
        first = await send(transport, "PUT", path, changed)
        second = await send(transport, "PUT", path, changed)
        return lease, json.loads(same.body), json.loads(first.body), status(second)

    lease, same, first, second = play(history)
    assert same == lease
    assert first["spec"] == {"holderIdentity": "two"}
    assert int(first["metadata"]["resourceVersion"]) > int(lease["metadata"]["resourceVersion"])
    assert second[:2] == (409, "Conflict")
    assert second[2].endswith("please apply your changes to the latest version and try again")


def test_a_put_of_a_lease_that_is_gone_makes_it_anew_unless_it_names_the_uid(play):
    async def history(cluster, transport):
        lease = await create(transport, "leases", lease_tree("lock"))
        await delete(transport, "leases", "lock")
        path = path_of("leases", "lock")
        named = await send(transport, "PUT", path, lease)
        meta = {"name": "lock", "resourceVersion": lease["metadata"]["resourceVersion"]}
        unnamed = await send(transport, "PUT", path, {**lease, "metadata": meta})
        return status(named)[:2], unnamed.status

    assert play(history) == ((409, "Conflict"), 201)


def test_a_delete_for_another_uid_or_version_is_a_conflict(play):
    async def history(cluster, transport):
        lease = await create(transport, "leases", lease_tree("lock"))
        uid, version = lease["metadata"]["uid"], lease["metadata"]["resourceVersion"]
        other = await delete(transport, "leases", "lock", preconditions={"uid": "0-1"})
        stale = await delete(transport, "leases", "lock", preconditions={"uid": uid, "resourceVersion": "7"})
        fine = await delete(transport, "leases", "lock", preconditions={"uid": uid, "resourceVersion": version})
        gone = await delete(transport, "leases", "lock")
        return [status(one)[:2] for one in (other, stale, fine, gone)]

    conflict = (409, "Conflict")
    assert play(history) == [conflict, conflict, (200, None), (404, "NotFound")]


def test_a_list_comes_in_pages_of_one_moment(play):
    async def history(cluster, transport):
        for number in range(5):
            labels = {"kind": "odd" if number % 2 else "even"}
            await create(transport, "leases", lease_tree(f"lease-{number}", labels=labels))
        first = json.loads((await send(transport, "GET", path_of("leases"), limit="2")).body)
        await create(transport, "leases", lease_tree("lease-9"))
        token = first["metadata"]["continue"]
        second = json.loads((await send(transport, "GET", path_of("leases"), **{"limit": "2", "continue": token})).body)
        third = {"limit": "2", "continue": second["metadata"]["continue"]}
        cluster.store.compact()
        expired = await send(transport, "GET", path_of("leases"), **third)
        odd = json.loads((await send(transport, "GET", path_of("leases"), labelSelector="kind=odd")).body)
        return first, second, status(expired)[:2], odd

    first, second, expired, odd = play(history)
    assert [one["metadata"]["name"] for one in first["items"]] == ["lease-0", "lease-1"]
    assert [one["metadata"]["name"] for one in second["items"]] == ["lease-2", "lease-3"]
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert first["metadata"]["remainingItemCount"] == 3
    assert expired == (410, "Expired")
    assert [one["metadata"]["name"] for one in odd["items"]] == ["lease-1", "lease-3"]


async def lines(stream):
    data = b""
    while piece := await stream.read():
        data += piece
    return [json.loads(line) for line in data.splitlines()]


def watch(resource, version, **query):
    pairs = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "300", **query}
    return Request("GET", path_of(resource), tuple(pairs.items()))


def test_a_watch_tells_what_came_after_its_version_and_ends_in_time(play):
    async def history(cluster, transport):
        one = await create(transport, "leases", lease_tree("one"))
        two = await create(transport, "leases", lease_tree("two"))
        request = watch("leases", one["metadata"]["resourceVersion"], allowWatchBookmarks="true")
        stream = await transport.open(request, idle=400)
        await send(transport, "PUT", path_of("leases", "two"), {**two, "spec": {"holderIdentity": "x"}})
        await delete(transport, "leases", "one")
        return await lines(stream), cluster.loop.time()

    events, ended = play(history)
    assert [(one["type"], one["object"]["metadata"].get("name")) for one in events[:3]] == [
        ("ADDED", "two"),
        ("MODIFIED", "two"),
        ("DELETED", "one"),
    ]
    assert {one["type"] for one in events[3:]} == {"BOOKMARK"}
    assert len(events) in (7, 8)
    versions = [int(one["object"]["metadata"]["resourceVersion"]) for one in events]
    assert versions == sorted(versions)
    assert 300 <= ended < 301


def test_a_watch_shows_objects_that_come_to_fit_or_cease_to(play):
    async def history(cluster, transport):
        lease = await create(transport, "leases", lease_tree("one", labels={"mine": "no"}))
        version = lease["metadata"]["resourceVersion"]
        stream = await transport.open(watch("leases", version, labelSelector="mine=yes"), idle=400)
        for value in ("yes", "no"):
            change = {"metadata": {"labels": {"mine": value}}}
            path = path_of("leases", "one")
            # No right to patch a Lease: an administrator does it.
            cluster.put("leases", {"metadata": {"name": "one", **change["metadata"]}})
            assert (await send(transport, "GET", path)).status == 200
        return [one["type"] for one in await lines(stream)]

    assert play(history) == ["ADDED", "DELETED"]


def test_a_watch_of_forgotten_changes_answers_410_as_status_or_inside_the_stream(play):
    async def history(cluster, transport):
        lease = await create(transport, "leases", lease_tree("one"))
        await create(transport, "leases", lease_tree("two"))
        cluster.store.compact()
        kinds = set()
        for _ in range(20):
            stream = await transport.open(watch("leases", lease["metadata"]["resourceVersion"]), idle=400)
            said = await lines(stream)
            code = said[0]["object"]["code"] if stream.status == 200 else said[0]["code"]
            kinds.add((stream.status, code))
        return kinds

    assert play(history) == {(410, 410), (200, 410)}


def test_rights_beyond_the_launchers_role_are_refused(play):
    async def history(cluster, transport):
        read = await send(transport, "GET", path_of("secrets", "x"))
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "create", "group": "batch", "resource": "jobs"}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        before = json.loads((await send(transport, "POST", path, review)).body)["status"]["allowed"]
        cluster.knobs.denied = frozenset({("create", "jobs")})
        after = json.loads((await send(transport, "POST", path, review)).body)["status"]["allowed"]
        denied = await send(transport, "POST", path_of("jobs"), job_tree("a"))
        return status(read), before, after, status(denied)

    read, before, after, denied = play(history)
    assert read[:2] == (403, "Forbidden")
    assert 'cannot get resource "secrets" in API group "" in the namespace "paperclip-agents"' in read[2]
    assert (before, after) == (True, False)
    assert 'jobs.batch is forbidden: User "launcher" cannot create resource "jobs"' in denied[2]


def test_quota_and_admission_refuse(play):
    async def history(cluster, transport):
        cluster.put("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"count/jobs.batch": "1"}}})
        await create(transport, "jobs", job_tree("a"))
        full = await send(transport, "POST", path_of("jobs"), job_tree("b"))
        refusal = Refusal(400, "", 'admission webhook "x.example" denied the request: no')
        cluster.knobs.admit = lambda resource, tree: refusal if resource == "leases" else None
        webhook = await send(transport, "POST", path_of("leases"), lease_tree("l"))
        return status(full), status(webhook)

    full, webhook = play(history, program_for=lambda job: HANG)
    assert full[:2] == (403, "Forbidden")
    assert "exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=1, limited: " in full[2]
    assert webhook[0] == 400


def test_a_secret_holds_a_mebibyte_and_no_more(play):
    async def history(cluster, transport):
        job = await create(transport, "jobs", job_tree("a"))
        fits = await send(transport, "POST", path_of("secrets"), secret_tree("s", job, part_0000=b"x" * (1 << 20)))
        tree = secret_tree("t", job, part_0000=b"x" * (1 << 20), more=b"y")
        return fits.status, status(await send(transport, "POST", path_of("secrets"), tree))

    fits, more = play(history, program_for=lambda job: HANG)
    assert fits == 201
    assert more == (422, "Invalid", 'Secret "t" is invalid: data: Too long: may not be more than 1048576 bytes')


def test_a_deleted_job_takes_all_that_it_owns_along_also_what_comes_too_late(play):
    async def history(cluster, transport):
        job = await create(transport, "jobs", job_tree("a", secrets=("s",)))
        await create(transport, "secrets", secret_tree("s", job, part_0000=b"x"))
        await create(transport, "leases", lease_tree("lock", ownerReferences=owned_by(job)))
        await asyncio.sleep(1)
        await delete(transport, "jobs", "a")
        await create(transport, "secrets", secret_tree("late", job, x=b"y"))
        await asyncio.sleep(40)
        return [cluster.objects(kind) for kind in ("jobs", "pods", "secrets", "leases")]

    assert play(history, program_for=lambda job: HANG) == [[], [], [], []]


def test_a_job_deleted_without_a_word_about_its_pods_leaves_them(play):
    async def history(cluster, transport):
        job = await create(transport, "jobs", job_tree("a"))
        await create(transport, "leases", lease_tree("lock", ownerReferences=owned_by(job)))
        await asyncio.sleep(1)
        await send(transport, "DELETE", path_of("jobs", "a"))
        await asyncio.sleep(5)
        left = [one["metadata"].get("ownerReferences") for kind in ("pods", "leases") for one in cluster.objects(kind)]
        return cluster.objects("jobs"), left, (await get(transport, "jobs", "a"))["code"]

    assert play(history, program_for=lambda job: HANG) == ([], [None, None], 404)
