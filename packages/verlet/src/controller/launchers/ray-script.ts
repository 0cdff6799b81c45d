/**
 * Ray's side of the launcher, run by the Python that has Ray: one actor per rank in a placement group, each with a Node child.
 * Reads one line of JSON, then serves until its standard input closes; says on standard output how ranks end.
 */
export const rayScript = String.raw`
import json, os, subprocess, sys, threading

def say(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()

def main():
    job = json.loads(sys.stdin.readline())
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    options = {"log_to_driver": False, "include_dashboard": False} if not job["address"] else {"log_to_driver": False}
    if job["numCpus"] and not job["address"]:
        options["num_cpus"] = job["numCpus"]
    ray.init(address=job["address"] or "local", runtime_env=job["runtimeEnv"] or None, **options)

    @ray.remote
    class Rank:
        def run(self, command, environment, local_rank):
            env = {**os.environ, **environment, "LOCAL_RANK": str(local_rank)}
            child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True, errors="replace")
            tail = []
            for line in child.stdout:
                tail = (tail + [line.rstrip()])[-20:]
            return child.wait(), tail

        def node(self):
            return ray.get_runtime_context().get_node_id()

    bundle = {"CPU": job["cpusPerRank"]}
    if job["gpus"]:
        bundle["GPU"] = 1
    group = placement_group([bundle] * job["worldSize"], strategy="PACK")
    if not group.wait(job["timeoutSeconds"]):
        say(event="failed", reason="the cluster has no room for %d ranks of %s" % (job["worldSize"], bundle))
        return
    actors = [
        Rank.options(
            num_cpus=bundle["CPU"], num_gpus=bundle.get("GPU", 0), max_concurrency=2,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank),
        ).remote()
        for rank in range(job["worldSize"])
    ]
    nodes = ray.get([actor.node.remote() for actor in actors])
    runs = {}
    for rank, actor in enumerate(actors):
        local = nodes[:rank].count(nodes[rank])
        runs[actor.run.remote(job["command"], job["environments"][rank], local)] = rank

    def watch():
        while runs:
            done, _ = ray.wait(list(runs), num_returns=1)
            rank = runs.pop(done[0])
            try:
                code, tail = ray.get(done[0])
                say(event="ended", rank=rank, reason="its process ended with code %d" % code, tail=tail)
            except Exception as error:
                say(event="ended", rank=rank, reason="its Ray actor is gone: %s" % type(error).__name__, tail=[str(error)])

    threading.Thread(target=watch, daemon=True).start()
    # The controller's end, or its word, is the end of this pipe.
    sys.stdin.read()
    for actor in actors:
        ray.kill(actor)
    remove_placement_group(group)
    ray.shutdown()

try:
    main()
except BaseException as error:
    say(event="failed", reason="%s: %s" % (type(error).__name__, error))
    raise SystemExit(1)
os._exit(0)
`;
