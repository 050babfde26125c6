-- KEYS: record. ARGV: the token that the caller saw, owner.
-- {1} if there is reason to try again; else {0}, and a caller outside the queue has left its mark;
-- {-1} damaged.
local key, now = KEYS[1], server_time()
local record = read(key, now)
if not record then return { -1 } end
local is_busy = record.held or record.shared > now
local me, front = stand(key, now, record, ARGV[2])
if me then return { (is_busy or front) and 0 or 1 } end
local first = first_alive(key, now, record)
if not (is_busy or first) or text(record.token) ~= ARGV[1] then return { 1 } end
mark(key, now, math.max(record.deadline, record.shared, first and first.alive or 0))
return { 0 }
