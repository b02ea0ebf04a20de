// iovalkey.
'use strict';

require('../shared/ioredis.js')(require('iovalkey'));
