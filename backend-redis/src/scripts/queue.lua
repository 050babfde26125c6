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

local function leave(key, now, record, one)
  local front, behind = place_of(key, now, one.front), place_of(key, now, one.behind)
  if not front and one.front ~= NOBODY or not behind and one.behind ~= NOBODY then
    return disband(key, record)
  end
  local queue = record.queue
  redis.call('HDEL', key, 'w:' .. one.owner)
  if front then
    front.behind = one.behind
    put(key, front)
  else
    queue.first = one.behind
  end
  if behind then
    behind.front = one.front
    put(key, behind)
  else
    queue.last = one.front
  end
  queue.size = queue.size - 1
  put_queue(key, record)
end

-- Takes `owner` out of the queue, and gives the place that it had.
local function withdraw(key, now, record, owner)
  local one = record.queue and place_of(key, now, owner)
  if one then leave(key, now, record, one) end
  return one
end

-- The first who is alive, looking along `way` from `owner` on, who stands next to `from`; the dead in
-- between leave.
local function alive_from(key, now, record, owner, way, from)
  while record.queue and owner ~= NOBODY do
    local one = place_of(key, now, owner)
    if not one or one[BACK[way]] ~= from then return disband(key, record) end
    if one.alive > now then return one end
    leave(key, now, record, one)
    owner = one[way]
  end
end

local function first_alive(key, now, record)
  return record.queue and alive_from(key, now, record, record.queue.first, 'behind', NOBODY) or nil
end

-- The place of `owner`, if it has one, and the nearest alive in front of it, or of where it would stand.
local function stand(key, now, record, owner)
  if not record.queue then return nil, nil end
  local me = place_of(key, now, owner)
  local next, from = me and me.front or record.queue.last, me and owner or NOBODY
  local front = alive_from(key, now, record, next, 'front', from)
  if not record.queue then return nil, nil end
  if me then me.front = front and front.owner or NOBODY end
  return me, front
end

-- Refreshes the place `me`, or takes one behind `front`.
local function queue_up(key, now, record, owner, period, me, front)
  if not me then
    me = { owner = owner, front = front and front.owner or NOBODY, behind = NOBODY }
    if front then
      front.behind = owner
      put(key, front)
    end
    record.queue = record.queue or { first = owner, size = 0 }
    record.queue.last = owner
    record.queue.size = record.queue.size + 1
    put_queue(key, record)
  end
  me.alive, me.period = now + period, period
  put(key, me)
end

-- What to announce when the lock called `name` is free: `@`, the one whose turn it is and the name; or
-- `*` and the name to whoever waits outside the queue; nil if nobody waits.
local function news(key, now, record, name)
  local first = first_alive(key, now, record)
  if first then return '@' .. first.owner .. name end
  if record.mark > 0 then redis.call('HDEL', key, 'mark') end
  if record.mark > now then return '*' .. name end
end
