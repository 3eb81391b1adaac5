// A queue of jobs, with scripts, blocking commands and streams: what people do with BullMQ, through TLS. Arguments: port,
// CA file. Prints "all well" at the end.

const assert = require("node:assert");
const fs = require("node:fs");
const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");

const [port, caFile] = process.argv.slice(2);
const connection = {
  host: "localhost",
  port: Number(port),
  tls: { ca: fs.readFileSync(caFile) },
  maxRetriesPerRequest: null,
};
const JOBS = 300;

async function main() {
  const queue = new Queue("sums", { connection });
  const events = new QueueEvents("sums", { connection });
  await events.waitUntilReady();
  const done = new Map();
  const attempts = new Map();
  const work = async (job) => {
    attempts.set(job.id, (attempts.get(job.id) ?? 0) + 1);
    if (job.data.fails && job.attemptsMade === 0) {
      throw new Error("not at first");
    }
    const children = Object.values(await job.getChildrenValues());
    await job.updateProgress(50);
    return children.reduce((sum, value) => sum + value, job.data.a + job.data.b);
  };
  const workers = [1, 2, 3].map(() => new Worker("sums", work, { connection, concurrency: 10 }));
  const all = new Promise((resolve) => {
    events.on("completed", ({ jobId, returnvalue }) => {
      assert.ok(!done.has(jobId), `job ${jobId} is done twice`);
      done.set(jobId, returnvalue);
      if (done.size === JOBS + 2) {
        resolve();
      }
    });
  });

  // Some fail at first, some come late, some are more urgent than others, and one waits for another.
  const jobs = Array.from({ length: JOBS }, (_, n) => ({
    name: "sum",
    data: { a: n, b: 1, fails: n % 10 === 0 },
    opts: { attempts: 2, delay: n % 7 === 0 ? 50 : 0, priority: n % 5 === 0 ? 3 : 0 },
  }));
  const added = await queue.addBulk(jobs);
  const flows = new FlowProducer({ connection });
  const flow = await flows.add({
    name: "parent",
    queueName: "sums",
    data: { a: 1, b: 1 },
    children: [{ name: "child", queueName: "sums", data: { a: 20, b: 20 } }],
  });
  await all;
  added.forEach((job, n) => {
    assert.equal(String(done.get(job.id)), String(n + 1));
    assert.equal(attempts.get(job.id), n % 10 === 0 ? 2 : 1);
  });
  assert.equal(String(done.get(flow.job.id)), "42");
  const { active, completed, failed } = await queue.getJobCounts("active", "completed", "failed");
  assert.deepEqual({ active, completed, failed }, { active: 0, completed: JOBS + 2, failed: 0 });

  await Promise.all(workers.map((worker) => worker.close()));
  await Promise.all([events, flows].map((each) => each.close()));
  await queue.obliterate();
  await queue.close();
  console.log("all well");
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
