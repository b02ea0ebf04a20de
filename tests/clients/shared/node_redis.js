// node-redis, versions 4 and 5, with their methods for Bloom filters and cuckoo filters.
'use strict';

const assert = require('node:assert');
const harness = require('./harness.js');
const { ok, password, port, protocol } = harness;

// `createClient` is the library's. `bytesOf(client)` has the methods of the client, and answers texts as Buffers.
module.exports = (createClient, bytesOf) => {
  async function connect(credentials) {
    const client = createClient({
      socket: { host: '127.0.0.1', port, reconnectStrategy: () => 20 }, ...(protocol === 3 ? { RESP: 3 } : {}), ...credentials,
    });
    // A lost connection is an event as well, and without a listener it ends the process.
    client.on('error', () => {});
    return client.connect();
  }

  // The library tries a refused password again and again: the first error tells.
  async function refusal(credentials) {
    const client = createClient({ socket: { host: '127.0.0.1', port, reconnectStrategy: false }, ...credentials });
    client.on('error', () => {});
    await client.connect();
    await client.ping();
  }

  async function auth() {
    await assert.rejects(refusal({}), /NOAUTH/);
    await assert.rejects(refusal({ username: 'default', password: 'wrong' }), /WRONGPASS/);
    for (const credentials of [{ password }, { username: 'default', password }]) {
      const client = await connect(credentials);
      assert.strictEqual(await client.ping(), 'PONG');
      await client.quit();
    }
    ok('auth');
    if (!harness.user) return;
    const client = await connect({ username: harness.user, password: harness.userPassword });
    assert.strictEqual(await client.sendCommand(['ACL', 'WHOAMI']), harness.user);
    await client.quit();
    ok('user');
  }

  async function moveFilter(client) {
    await client.bf.mAdd('source', ['a', 'b']);
    for (let iterator = 0; ;) {
      const piece = await bytesOf(client).scanDump('source', iterator);
      iterator = piece.iterator;
      if (iterator === 0) break;
      assert.strictEqual(await client.bf.loadChunk('moved', iterator, piece.chunk), 'OK');
    }
    assert.deepStrictEqual(await client.bf.mExists('moved', ['a', 'b', 'c']), [true, true, false]);
  }

  async function cuckoo(client) {
    assert.strictEqual(await client.cf.reserve('given', 1000, { EXPANSION: 2, BUCKETSIZE: 4, MAXITERATIONS: 50 }), 'OK');
    assert.strictEqual(await client.cf.add('given', 'alice'), true);
    assert.strictEqual(await client.cf.addNX('given', 'alice'), false);
    assert.deepStrictEqual(await client.cf.insert('given', ['alice', 'bob'], { NOCREATE: true }), [true, true]);
    assert.deepStrictEqual((await client.cf.insertNX('taken', ['x', 'y'], { CAPACITY: 500 })).map(Number), [1, 1]);
    assert.strictEqual(await client.cf.exists('given', 'bob'), true);
    assert.strictEqual(await client.cf.exists('given', 'carol'), false);
    assert.strictEqual(await client.cf.count('given', 'alice'), 2);
    assert.strictEqual(await client.cf.del('given', 'alice'), true);
    assert.strictEqual(await client.cf.del('given', 'carol'), false);
    // Version 4 has other names for the fields than version 5.
    assert.match(JSON.stringify(await client.cf.info('given')), /nserted\w*":2,.*eleted\w*":1,.*ucket\w*( \w+)*":4,.*xpansion\w*( \w+)*":2/);
    await assert.rejects(client.cf.reserve('given', 1000), /item exists/);
  }

  async function commands(client) {
    assert.strictEqual(await client.bf.reserve('users', 0.001, 1000, { EXPANSION: 4 }), 'OK');
    assert.strictEqual(await client.bf.reserve('fixed', 0.01, 100, { NONSCALING: true }), 'OK');
    assert.strictEqual(await client.bf.add('users', 'alice'), true);
    assert.deepStrictEqual(await client.bf.mAdd('users', ['alice', 'bob']), [false, true]);
    const options = { CAPACITY: 500, ERROR: 0.01, EXPANSION: 4 };
    assert.deepStrictEqual(await client.bf.insert('other', ['x', 'y'], options), [true, true]);
    assert.deepStrictEqual(await client.bf.insert('other', 'z', { NOCREATE: true }), [true]);
    assert.strictEqual(await client.bf.exists('users', 'alice'), true);
    assert.strictEqual(await client.bf.exists('users', 'carol'), false);
    assert.deepStrictEqual(await client.bf.mExists('users', ['alice', 'carol']), [true, false]);
    assert.strictEqual(await client.bf.card('users'), 2);
    // Version 4 has other names for the fields than version 5.
    const told = JSON.stringify(await client.bf.info('users'));
    assert.match(told, /apacity":1000,.*tems\w*( \w+)*":2,.*xpansion\w*( \w+)*":4/);
    await moveFilter(client);
    await cuckoo(client);
    ok('commands');
    await assert.rejects(client.bf.reserve('users', 0.001, 1000), /item exists/);
    await assert.rejects(client.bf.insert('nothing', 'x', { NOCREATE: true }), /not found/);
    await assert.rejects(client.sendCommand(['NOSUCH']), /unknown command/);
    ok('errors');
  }

  async function binary(client) {
    const { binaryItem, binaryKey } = harness;
    const replies = await client.sendCommand(['BF.MADD', binaryKey, binaryItem, '']);
    assert.deepStrictEqual(harness.ones(replies), [1, 1]);
    assert.deepStrictEqual(await bytesOf(client).keys('binary:*'), [binaryKey]);
    ok('binary');
  }

  // A watch belongs to a connection: version 4 has executeIsolated for it, version 5 a pool. One client is enough for both.
  async function transaction(client) {
    await client.watch('counted');
    const done = await client.multi().bf.add('counted', 'a').bf.exists('counted', 'a').exec();
    assert.deepStrictEqual(done, [true, true]);
    const other = await connect({ password });
    await client.watch('counted');
    assert.strictEqual(await other.bf.add('counted', 'b'), true);
    await assert.rejects(client.multi().bf.add('counted', 'c').exec(), { name: /WatchError|Error/ });
    assert.strictEqual(await client.bf.exists('counted', 'c'), false);
    await other.quit();
    ok('transaction');
  }

  async function script(client) {
    if (!harness.scripts) return;
    const words = { keys: ['scripted'], arguments: ['a'] };
    assert.strictEqual(Number(await client.eval(harness.addScript, words)), 1);
    const digest = await client.scriptLoad(harness.addScript);
    assert.strictEqual(Number(await client.evalSha(digest, words)), 0);
    ok('script');
  }

  async function tour() {
    await auth();
    const client = await connect({ password });
    await commands(client);
    await binary(client);
    const { batchItems, mostlyNew, names, pipelineDepth } = harness;
    mostlyNew(await Promise.all(names('p:', pipelineDepth).map((item) => client.bf.add('piped', item))), pipelineDepth);
    ok('pipeline');
    await transaction(client);
    await script(client);
    assert.strictEqual(await client.bf.reserve('batch', 0.001, batchItems), 'OK');
    mostlyNew(await client.bf.mAdd('batch', names('b:', batchItems)), batchItems);
    ok('batch');
    await client.quit();
  }

  async function write() {
    const client = await connect({ password });
    await harness.writeForever((item) => client.bf.add('written', item));
  }

  harness.main(tour, write);
};
