-- The queue of a lock, a doubly linked list in the lock's own record. The field `queue` has the first
-- and the last owner and how many there are. `w:` and an owner: alive until, for how long one sign of
-- life counts, who stands in front and who behind.
local NOBODY = '-'
local BACK = { front = 'behind', behind = 'front' }

local function put(key, one)
  local fields = { text(one.alive), text(one.period), one.front, one.behind }
  redis.call('HSET', key, 'w:' .. one.owner, table.concat(fields, ' '))
end

local function put_queue(key, record)
  local queue = record.queue
  if queue.size > 0 then
    redis.call('HSET', key, 'queue', queue.first .. ' ' .. queue.last .. ' ' .. text(queue.size))
  else
    redis.call('HDEL', key, 'queue')
    record.queue = nil
  end
end

-- The place of `owner`, nil if it has none.
local function place_of(key, now, owner)
  local value = owner ~= NOBODY and redis.call('HGET', key, 'w:' .. owner)
  local alive, period, front, behind = string.match(value or '', '^(%d+) (%d+) (%S+) (%S+)')
  if not alive then return nil end
  local one = { owner = owner, alive = tonumber(alive), period = tonumber(period), front = front, behind = behind }
  if one.alive > now + one.period then
    -- The clock was set back; one sign of life does not count for longer than was asked for.
    one.alive = now + one.period
    put(key, one)
  end
  return one
end

-- Ends a queue whose list is broken, which none of these scripts does: whoever waits queues anew.
local function disband(key, record)
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, 2) == 'w:' then redis.call('HDEL', key, field) end
  end
  redis.call('HDEL', key, 'queue')
  record.queue = nil
end

-- Makes two neighbours; nil stands for the queue's end.
local function join(key, record, front, behind)
  local front_owner, behind_owner = front and front.owner or NOBODY, behind and behind.owner or NOBODY
  if front then
    front.behind = behind_owner
    put(key, front)
  else
    record.queue.first = behind_owner
  end
  if behind then
    behind.front = front_owner
    put(key, behind)
  else
    record.queue.last = front_owner
  end
end

-- Takes `owner` out of the queue, and gives the place that it had.
local function withdraw(key, now, record, owner)
  local one = record.queue and place_of(key, now, owner)
  if not one then return nil end
  local front, behind = place_of(key, now, one.front), place_of(key, now, one.behind)
  if not front and one.front ~= NOBODY or not behind and one.behind ~= NOBODY then
    disband(key, record)
    return one
  end
  redis.call('HDEL', key, 'w:' .. owner)
  join(key, record, front, behind)
  record.queue.size = record.queue.size - 1
  put_queue(key, record)
  return one
end

-- The nearest alive from `from`, or from the queue's end, along `way`; the dead in between leave.
local function nearest_alive(key, now, record, from, way)
  local queue, one, dead = record.queue, nil, {}
  local before, owner = NOBODY, way == 'front' and queue.last or queue.first
  if from then before, owner = from.owner, from[way] end
  while owner ~= NOBODY do
    one = place_of(key, now, owner)
    if not one or one[BACK[way]] ~= before then return disband(key, record) end
    if one.alive > now then break end
    dead[#dead + 1] = 'w:' .. owner
    before, owner, one = owner, one[way], nil
  end
  if #dead == 0 then return one end
  for at = 1, #dead, 1000 do
    redis.call('HDEL', key, unpack(dead, at, math.min(at + 999, #dead)))
  end
  if way == 'front' then join(key, record, one, from) else join(key, record, from, one) end
  queue.size = queue.size - #dead
  put_queue(key, record)
  return one
end

local function first_alive(key, now, record)
  return record.queue and nearest_alive(key, now, record, nil, 'behind') or nil
end

-- The place of `owner`, if it has one, and the nearest alive in front of it, or of where it would stand.
local function stand(key, now, record, owner)
  if not record.queue then return nil, nil end
  local me = place_of(key, now, owner)
  local front = nearest_alive(key, now, record, me, 'front')
  if not record.queue then return nil, nil end
  return me, front
end

-- Refreshes the place `me`, or takes one behind `front`.
local function queue_up(key, now, record, owner, period, me, front)
  local is_new = not me
  me = me or { owner = owner, front = NOBODY, behind = NOBODY }
  me.alive, me.period = now + period, period
  if is_new then
    record.queue = record.queue or { size = 0 }
    join(key, record, front, me)
    join(key, record, me, nil)
    record.queue.size = record.queue.size + 1
    put_queue(key, record)
  else
    put(key, me)
  end
end

-- What to announce when the lock called `name` is free: `@`, the one whose turn it is and the name; or
-- `*` and the name to whoever waits outside the queue; nil if nobody waits.
local function news(key, now, record, name)
  local first = first_alive(key, now, record)
  if first then return '@' .. first.owner .. name end
  if record.mark > 0 then redis.call('HDEL', key, 'mark') end
  if record.mark > now then return '*' .. name end
end
