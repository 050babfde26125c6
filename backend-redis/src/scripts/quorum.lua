-- What a node of a quorum notes beside the record. `before`: the token that the last grant found here.
-- `agreed`: what the claims' owner proposed and this node took over; it counts while it is the record's
-- token. `attempt`: the number of the attempt that voted last.

-- For how many microseconds this node must not grant what it does not remember, since it may have
-- forgotten who has it: until it has been up, and its data there, for `length`.
local function hold_off(now, marker, length)
  if length == 0 then return 0 end
  local born = stored(redis.call('GET', marker), nil)
  if not born or born > now then
    redis.call('SET', marker, text(now))
    born = now
  end
  -- Whole seconds, rounded up by up to one. Below zero where the clock was set back to before the start: then
  -- nobody knows how long this server runs, and it waits.
  local uptime = tonumber(string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%-?%d+)')) - 1
  return math.max(0, length - math.max(0, math.min(now - born, uptime * 1000000)))
end

-- Whether the holder's token here is `token` from now on. What came first stays, and a token that is not
-- above what the holder's grant found here would send the lock's tokens backwards.
local function agree(key, now, record, token)
  local value = redis.call('HMGET', key, 'before', 'agreed')
  if value[2] == text(record.token) then return value[2] == token end
  local number = tonumber(token)
  if stored(value[1], 0) >= number then return false end
  redis.call('HSET', key, 'token', token, 'agreed', token)
  keep(key, now, number, record.deadline)
  record.token = number
  return true
end
