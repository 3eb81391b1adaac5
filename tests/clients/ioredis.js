// What people do with ioredis, through TLS. Arguments: port, CA file. Prints "all well" at the end.

const assert = require("node:assert");
const fs = require("node:fs");
const Redis = require("ioredis");

const [port, caFile] = process.argv.slice(2);
const connect = () => new Redis({
  host: "localhost",
  port: Number(port),
  tls: { ca: fs.readFileSync(caFile) },
  retryStrategy: () => null,
});

async function main() {
  const client = connect();
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.set("key", "value"), "OK");
  assert.equal(await client.get("key"), "value");

  const big = Buffer.alloc(5_000_000, "0123456789abcdef");
  await client.set("big", big);
  assert.ok(big.equals(await client.getBuffer("big")));

  // Everything at once on one connection: ioredis pipelines by itself.
  const echoes = await Promise.all(Array.from({ length: 5000 }, (_, i) => client.echo(String(i))));
  echoes.forEach((echo, i) => assert.equal(echo, String(i)));

  const results = await client.multi().del("n").incr("n").incr("n").exec();
  assert.deepEqual(results.map(([error, value]) => [error, value]).slice(1), [[null, 1], [null, 2]]);

  const subscriber = connect();
  await subscriber.subscribe("news");
  const message = new Promise((resolve) => subscriber.on("message", (channel, text) => resolve([channel, text])));
  await client.publish("news", "hello");
  assert.deepEqual(await message, ["news", "hello"]);

  const blocked = connect();
  await client.del("queue");
  const popped = blocked.blpop("queue", 20);
  await client.rpush("queue", "work");
  assert.deepEqual(await popped, ["queue", "work"]);

  await Promise.all([client, subscriber, blocked].map((each) => each.quit()));
  console.log("all well");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
