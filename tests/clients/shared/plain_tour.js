// The tour of a library that has no methods of its own for Bloom filters. `library` has
//   connect(credentials)           a connection; rejects, or its requests do, if the server refuses the credentials
//   ask(client, words)             the reply to a request
//   askBytes(client, words)        the same, with texts as Buffers
//   pipeline(client, requests)     the replies to a pipeline
//   transaction(client, requests)  the replies to a transaction; null if a watched key has changed
//   watch(client, key)
//   script(client, text, key, argument)   by EVAL or EVALSHA, as the library does it
//   close(client)
'use strict';

const assert = require('node:assert');
const harness = require('./harness.js');
const { ok, ones } = harness;

async function refused(library, credentials, text) {
  const asked = async () => {
    const client = await library.connect(credentials);
    try {
      await library.ask(client, ['PING']);
    } finally {
      await library.close(client);
    }
  };
  await assert.rejects(asked(), text);
}

async function auth(library) {
  const { password, user, userPassword } = harness;
  await refused(library, {}, /NOAUTH|Authentication required/);
  await refused(library, { username: 'default', password: 'wrong' }, /WRONGPASS|NOAUTH|AuthenticationFailed/);
  for (const credentials of [{ password }, { username: 'default', password }]) {
    const client = await library.connect(credentials);
    assert.strictEqual(await library.ask(client, ['PING']), 'PONG');
    await library.close(client);
  }
  ok('auth');
  if (!user) return;
  const client = await library.connect({ username: user, password: userPassword });
  assert.strictEqual(await library.ask(client, ['ACL', 'WHOAMI']), user);
  await library.close(client);
  ok('user');
}

async function moveFilter(ask, askBytes) {
  assert.deepStrictEqual(ones(await ask('BF.MADD', 'source', 'a', 'b')), [1, 1]);
  for (let iterator = 0; ;) {
    const [next, data] = await askBytes('BF.SCANDUMP', 'source', String(iterator));
    iterator = next;
    if (iterator === 0) break;
    assert.strictEqual(await ask('BF.LOADCHUNK', 'moved', String(iterator), data), 'OK');
  }
  assert.deepStrictEqual(ones(await ask('BF.MEXISTS', 'moved', 'a', 'b', 'c')), [1, 1, 0]);
}

async function commands(ask, askBytes, protocol) {
  assert.strictEqual(await ask('BF.RESERVE', 'users', '0.001', '1000', 'EXPANSION', '4'), 'OK');
  assert.strictEqual(await ask('BF.RESERVE', 'fixed', '0.01', '100', 'NONSCALING'), 'OK');
  assert.strictEqual(await ask('BF.ADD', 'users', 'alice'), protocol === 3 ? true : 1);
  assert.deepStrictEqual(ones(await ask('BF.MADD', 'users', 'alice', 'bob')), [0, 1]);
  const insert = ['BF.INSERT', 'other', 'CAPACITY', '500', 'ERROR', '0.01', 'EXPANSION', '4', 'ITEMS', 'x', 'y'];
  assert.deepStrictEqual(ones(await ask(...insert)), [1, 1]);
  assert.strictEqual(Number(await ask('BF.EXISTS', 'users', 'alice')), 1);
  assert.strictEqual(Number(await ask('BF.EXISTS', 'users', 'carol')), 0);
  assert.deepStrictEqual(ones(await ask('BF.MEXISTS', 'users', 'alice', 'carol')), [1, 0]);
  assert.strictEqual(await ask('BF.CARD', 'users'), 2);
  assert.deepStrictEqual(ones(await ask('BF.CHECK', 'users', 'alice', 'carol')), [1, 0]);
  assert.deepStrictEqual(await ask('BF.FIND', '3', 'nothing', 'other', 'users', 'ITEMS', 'alice', 'x', 'carol'), [3, 2, 0]);
  const columns = await ask('BF.FIND', '2', 'nothing', 'users', 'ALL', 'ITEMS', 'alice', 'carol');
  assert.deepStrictEqual(columns.map(([missing, found]) => [missing, Number(found)]), [[null, 1], [null, 0]]);
  assert.strictEqual(await ask('BF.MERGE', 'union', '1', 'users'), 'OK');
  assert.deepStrictEqual(ones(await ask('BF.MEXISTS', 'union', 'alice', 'carol')), [1, 0]);
  await ask('DEL', 'union');
  const told = JSON.stringify(await ask('BF.INFO', 'users'));
  assert.match(told, /Capacity\W+(value\W+)?1000\b.*Number of items inserted\W+(value\W+)?2\b.*Expansion rate\W+(value\W+)?4\b/);
  await moveFilter(ask, askBytes);
  ok('commands');
  await assert.rejects(ask('BF.RESERVE', 'users', '0.001', '1000'), /item exists/);
  await assert.rejects(ask('BF.INSERT', 'nothing', 'NOCREATE', 'ITEMS', 'x'), /not found/);
  await assert.rejects(ask('BF.CHECK', 'nothing', 'x'), /not found/);
  await assert.rejects(ask('NOSUCH'), /unknown command/);
  ok('errors');
}

async function binary(ask, askBytes) {
  const { binaryItem, binaryKey } = harness;
  assert.deepStrictEqual(ones(await ask('BF.MADD', binaryKey, binaryItem, '')), [1, 1]);
  assert.deepStrictEqual(await askBytes('KEYS', 'binary:*'), [binaryKey]);
  ok('binary');
}

async function transactions(library, client) {
  const requests = (item) => [['BF.ADD', 'counted', item], ['BF.EXISTS', 'counted', item]];
  await library.watch(client, 'counted');
  assert.deepStrictEqual(ones(await library.transaction(client, requests('a'))), [1, 1]);
  const other = await library.connect({ password: harness.password });
  await library.watch(client, 'counted');
  assert.strictEqual(Number(await library.ask(other, ['BF.ADD', 'counted', 'b'])), 1);
  assert.strictEqual(await library.transaction(client, requests('c')), null);
  await library.close(other);
  ok('transaction');
}

async function many(library, client) {
  const { batchItems, names, mostlyNew, pipelineDepth } = harness;
  const requests = names('p:', pipelineDepth).map((item) => ['BF.ADD', 'piped', item]);
  mostlyNew(await library.pipeline(client, requests), pipelineDepth);
  ok('pipeline');
  await transactions(library, client);
  if (harness.scripts) {
    assert.strictEqual(Number(await library.script(client, harness.addScript, 'scripted', 'a')), 1);
    assert.strictEqual(Number(await library.script(client, harness.addScript, 'scripted', 'a')), 0);
    ok('script');
  }
  assert.strictEqual(await library.ask(client, ['BF.RESERVE', 'batch', '0.001', String(batchItems)]), 'OK');
  mostlyNew(await library.ask(client, ['BF.MADD', 'batch', ...names('b:', batchItems)]), batchItems);
  ok('batch');
}

async function tour(library) {
  await auth(library);
  const client = await library.connect({ password: harness.password });
  const ask = (...words) => library.ask(client, words);
  const askBytes = (...words) => library.askBytes(client, words);
  await commands(ask, askBytes, harness.protocol);
  await binary(ask, askBytes);
  await many(library, client);
  await library.close(client);
}

async function write(library) {
  const client = await library.connect({ password: harness.password });
  await harness.writeForever((item) => library.ask(client, ['BF.ADD', 'written', item]));
}

function main(library) {
  harness.main(() => tour(library), () => write(library));
}

module.exports = { main };
