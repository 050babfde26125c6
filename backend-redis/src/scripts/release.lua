-- KEYS: record. ARGV: owner, channel, what to publish there, channel of the Cluster's node or ''.
-- {1} released; {0} not held any more; {2} held by another owner; {-1} damaged.
local key, now = KEYS[1], server_time()
local record = read(key, now)
if not record then return { -1 } end
if record.owner ~= ARGV[1] then return { record.held and 2 or 0 } end
redis.call('HDEL', key, 'owner', 'deadline', 'ttl', 'metadata', 'mark')
keep(key, now, record.token, 0)
if record.mark > now then announce(ARGV[2], ARGV[4], ARGV[3]) end
return { record.held and 1 or 0 }
