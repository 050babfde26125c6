-- KEYS: record. ARGV: owner, channel, the lock's name to publish there, channel of the Cluster's node or '',
-- and if one of the caller's own may be next in the queue its owner, ttl and metadata.
-- {1} released; {1, token} and granted to that one; {0} not held any more; {2} held by another owner; {-1} damaged.
local key, now = KEYS[1], server_time()
local record = read(key, now)
if not record then return { -1 } end
local place = withdraw(key, now, record, ARGV[1])
local is_mine = record.owner == ARGV[1]
if is_mine then
  local first = ARGV[5] and record.held and first_alive(key, now, record)
  if first and first.owner == ARGV[5] then
    withdraw(key, now, record, first.owner)
    return grant(key, now, record, first.owner, tonumber(ARGV[6]), ARGV[7])
  end
  redis.call('HDEL', key, 'owner', 'deadline', 'ttl', 'metadata')
  keep(key, now, record.token, 0)
else
  -- It called nobody's turn by leaving unless it was the first alive.
  local front = place and record.queue and place_of(key, now, place.front)
  if record.held or record.shared > now or not place or front and front.alive > now then
    return { record.held and 2 or 0 }
  end
end
local message = news(key, now, record, ARGV[3])
if message then announce(ARGV[2], ARGV[4], message) end
return { is_mine and record.held and 1 or 0 }
