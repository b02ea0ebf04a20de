// node-redis 5.
'use strict';

const { RESP_TYPES, createClient } = require('redis');

require('../shared/node_redis.js')(createClient, (client) => {
  const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  return { keys: (pattern) => bytes.keys(pattern), scanDump: (key, iterator) => bytes.bf.scanDump(key, iterator) };
});
