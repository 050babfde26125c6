-- A lock's record, shared by all scripts. Times are microseconds of the server's clock.
local MOST = 9007199254740991 -- 2^53 - 1: up to here Lua's numbers are exact
local LANES = 16 -- of each channel; as many as in names.rs
local KEEP = 86400000000 -- an idle record, and with it the last token, is kept for a day

local function text(number)
  return string.format('%.0f', number) -- tostring would round
end

local function is_error(answer)
  return type(answer) == 'table' and answer.err
end

local function server_time()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- A stored number, `absent` if there is none, nil if it is damaged.
local function stored(value, absent)
  if not value then return absent end
  local number = string.find(value, '^%d+$') and tonumber(value)
  return number and number <= MOST and number or nil
end

-- Who is first and last in the queue, and how many there are; nil if it is damaged.
local function queue_of(value)
  local first, last, size = string.match(value, '^(%x+) (%x+) (%d+)$')
  return first and { first = first, last = last, size = tonumber(size) }
end

-- The record under `key`, or nil if what is there is not one of ours, or damaged.
local function read(key, now)
  local value = redis.pcall('HMGET', key, 'token', 'owner', 'deadline', 'ttl', 'mark', 'shared', 'metadata', 'queue')
  if value.err then return nil end
  if not value[1] and redis.call('EXISTS', key) == 1 then return nil end
  local record = {
    token = stored(value[1], 0), owner = value[2], deadline = stored(value[3], 0), ttl = stored(value[4], 0),
    mark = stored(value[5], 0), shared = stored(value[6], 0), metadata = value[7] or '',
    queue = value[8] and queue_of(value[8]),
  }
  if not (record.token and record.deadline and record.ttl and record.mark and record.shared) then return nil end
  if value[8] and not record.queue then return nil end
  -- No token can follow.
  if record.token == MOST then return nil end
  if record.owner and (#record.owner ~= 32 or record.deadline == 0 or record.ttl == 0) then return nil end
  if record.owner and record.deadline > now + record.ttl then
    -- The clock was set back; nobody waits longer than the ttl that was asked for.
    record.deadline = now + record.ttl
    redis.call('HSET', key, 'deadline', text(record.deadline))
  end
  record.held = record.owner and record.deadline > now
  return record
end

-- Expiry of the key is for tidiness alone: it comes when every later token is higher anyway.
local function keep(key, now, token, deadline)
  redis.call('PEXPIREAT', key, text(math.floor((math.max(now, token, deadline) + KEEP) / 1000)))
end

local function grant(key, now, record, owner, ttl, metadata)
  local token, deadline = math.max(record.token + 1, now), now + ttl
  redis.call('HSET', key, 'token', text(token), 'owner', owner, 'deadline', text(deadline),
    'ttl', text(ttl), 'metadata', metadata)
  keep(key, now, token, deadline)
  return { 1, text(token) }
end

-- Says until when somebody waits. Whoever still waits then leaves a new mark.
local function mark(key, now, free_at)
  redis.call('HSET', key, 'mark', text(math.max(now + 1000, free_at) + 1000000))
end

-- How many hear it, nil if it is not allowed or not known here. Each listener hears one lane. The first
-- lane changes, since whoever hears of each release first would get each lock.
local function publish(command, channel, message)
  local first, heard = redis.call('TIME')[2] % LANES, 0
  for step = 0, LANES - 1 do
    local answer = redis.pcall(command, channel .. ':' .. text((first + step) % LANES), message)
    if is_error(answer) then return nil end
    heard = heard + answer
  end
  return heard
end

-- A lock given back stays so, even where publishing is not allowed. In a Cluster the node alone has
-- to hear of it, if it knows how (from version 7 on) and if anybody listens there: while a slot is on
-- its way here, they listen elsewhere.
local function announce(channel, shard_channel, message)
  if shard_channel ~= '' and (publish('SPUBLISH', shard_channel, message) or 0) > 0 then return end
  publish('PUBLISH', channel, message)
end

-- `front` stands in front of the caller.
local function busy(now, record, front)
  local turn = math.max(record.held and record.deadline or 0, record.shared, front and front.alive or 0) - now
  if record.held then
    return { 0, text(record.token), record.owner, record.deadline - now, record.metadata, turn }
  end
  return { 2, text(record.token), turn }
end
