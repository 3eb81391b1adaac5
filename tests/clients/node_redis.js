// What people do with node-redis, through TLS. Arguments: port, CA file. Prints "all well" at the end.

const assert = require("node:assert");
const fs = require("node:fs");
const { createClient, createClientPool, WatchError } = require("redis");

const [port, caFile] = process.argv.slice(2);
const options = (RESP) => ({
  RESP,
  socket: { host: "localhost", port: Number(port), tls: true, ca: fs.readFileSync(caFile), reconnectStrategy: false },
});

async function connect(RESP) {
  const client = createClient(options(RESP));
  client.on("error", (error) => { throw error; });
  return client.connect();
}

async function work(RESP) {
  const client = await connect(RESP);
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.set("key", "value"), "OK");
  assert.equal(await client.get("key"), "value");

  await client.del("hash");
  await client.hSet("hash", { one: "1", two: "2" });
  assert.deepEqual({ ...(await client.hGetAll("hash")) }, { one: "1", two: "2" });

  const big = "0123456789abcdef".repeat(300_000);
  await client.set("big", big);
  assert.ok((await client.get("big")) === big);

  // Everything at once on one connection: node-redis pipelines by itself.
  const echoes = await Promise.all(Array.from({ length: 5000 }, (_, i) => client.echo(String(i))));
  echoes.forEach((echo, i) => assert.equal(echo, String(i)));

  assert.deepEqual((await client.multi().del("n").incr("n").incr("n").exec()).slice(1), [1, 2]);

  // A key that is watched, and written by another meanwhile.
  const other = await connect(RESP);
  await client.watch("n");
  await other.incr("n");
  await assert.rejects(client.multi().incr("n").exec(), WatchError);
  assert.equal(await client.get("n"), "3");

  const subscriber = await connect(RESP);
  const message = new Promise((resolve) => subscriber.subscribe("news", resolve).then(() => other.publish("news", "hello")));
  assert.equal(await message, "hello");
  await subscriber.unsubscribe("news");
  assert.equal(await subscriber.ping(), "PONG");

  await client.del("queue");
  const popped = other.blPop("queue", 20);
  await client.rPush("queue", "work");
  assert.deepEqual({ ...(await popped) }, { key: "queue", element: "work" });

  assert.equal(await client.eval("return redis.call('GET', KEYS[1]) .. ARGV[1]", { keys: ["key"], arguments: ["!"] }), "value!");

  const pool = await createClientPool(options(RESP), { minimum: 16, maximum: 16 }).connect();
  await pool.del("counted");
  await Promise.all(Array.from({ length: 2000 }, () => pool.incr("counted")));
  assert.equal(await pool.get("counted"), "2000");
  await pool.close();
  await Promise.all([client, other, subscriber].map((each) => each.close()));
}

async function main() {
  await work(2);
  await work(3);
  console.log("all well");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
