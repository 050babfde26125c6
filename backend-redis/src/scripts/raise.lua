-- KEYS: record. ARGV: token. A lock that nobody holds here is not put back with this token or a lower one.
local key, now = KEYS[1], server_time()
local record = read(key, now)
if not record then return { -1 } end
if not record.held and record.token < tonumber(ARGV[1]) then
  redis.call('HSET', key, 'token', ARGV[1])
  keep(key, now, tonumber(ARGV[1]), 0)
end
return { 1 }
