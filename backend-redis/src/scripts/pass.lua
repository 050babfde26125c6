-- KEYS: record. ARGV: owner and token of the lease, next owner, next token, ttl, metadata, the number of the passing.
-- {1, time} the next owner has it, with that token; {0, time} the lease is not held here; {2, time} another one holds
-- it; {3, time} the clock is past that token, which could be below a token floor; -1 damaged.
local key, now = KEYS[1], server_time()
local record = read(key, now)
if not record then return { -1, now } end
if not record.held then return { 0, now } end
if record.owner ~= ARGV[1] then return { 2, now } end
if tonumber(ARGV[4]) < now then return { 3, now } end
if not agree(key, now, record, ARGV[2]) then return { 0, now } end
local deadline = now + tonumber(ARGV[5])
redis.call('HSET', key, 'token', ARGV[4], 'agreed', ARGV[4], 'before', text(record.token), 'owner', ARGV[3],
  'deadline', text(deadline), 'ttl', ARGV[5], 'metadata', ARGV[6], 'attempt', ARGV[7])
keep(key, now, tonumber(ARGV[4]), deadline)
return { 1, now }
