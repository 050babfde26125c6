-- What a node of a quorum notes beside the record. `before`: the token that the last grant found here.
-- `agreed`: what the claims' owner proposed and this node took over; it counts while it is the record's
-- token. `attempt`: the number of the attempt that voted last.

-- For how many microseconds this node must not grant what it does not remember, since it may have
-- forgotten who has it: until it has been up, and its data there, for `length`. The marker says since when, and
-- in which run of the server.
local function hold_off(now, marker, length)
  if length == 0 then return 0 end
  local info = redis.call('INFO', 'server')
  local run = string.match(info, 'run_id:(%x+)')
  local since, noted = string.match(redis.call('GET', marker) or '', '^(%d+):(%x+)$')
  local born = stored(since, nil)
  if noted ~= run or not born or born > now then
    -- It is new, or without its data, or its clock was set back to before then: nobody knows since when it runs.
    local up = 0
    if born and noted ~= run then
      -- It has its data from before a restart. Whole seconds, rounded up by up to one; below zero where the clock
      -- was set back to before the start.
      up = math.max(0, tonumber(string.match(info, 'uptime_in_seconds:(%-?%d+)')) - 1)
    end
    born = now - up * 1000000
    redis.call('SET', marker, text(born) .. ':' .. run)
  end
  return math.max(0, length - (now - born))
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
