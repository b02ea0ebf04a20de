// ioredis, and iovalkey, which began as a copy of it and has the same methods.
'use strict';

const fs = require('node:fs');
const { port } = require('./harness.js');
const { main } = require('./plain_tour.js');

const authority = process.env.SEPAL_TLS_CA;
const encryption = authority ? { tls: { ca: fs.readFileSync(authority) } } : {};

function connect(Redis, credentials) {
  const client = new Redis({ host: '127.0.0.1', port, ...encryption, maxRetriesPerRequest: null, retryStrategy: () => 20, ...credentials });
  // A library without a listener writes errors to the console. The requests tell them as well.
  client.on('error', () => {});
  return client;
}

// The replies of [[error, reply], ...].
function replies(pairs) {
  return pairs && pairs.map(([error, reply]) => {
    if (error) throw error;
    return reply;
  });
}

function queued(chain, requests) {
  for (const words of requests) chain.call(...words);
  return chain;
}

module.exports = (Redis) => main({
  connect: async (credentials) => connect(Redis, credentials),
  ask: (client, words) => client.call(...(words.length > 1000 ? [words[0], words.slice(1)] : words)),
  askBytes: (client, words) => client.callBuffer(...words),
  pipeline: async (client, requests) => replies(await queued(client.pipeline(), requests).exec()),
  transaction: async (client, requests) => replies(await queued(client.multi(), requests).exec()),
  watch: (client, key) => client.watch(key),
  script: async (client, text, key, argument) => {
    client.defineCommand('addByScript', { numberOfKeys: 1, lua: text });
    return client.addByScript(key, argument);
  },
  close: (client) => client.disconnect(),
});
